// SPDX-License-Identifier: Apache-2.0
// Unicode's canonical composition (NFC), and where each part of the result came from.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradmill {

class NormalizedText {
 public:
  const std::string& text() const { return text_; }
  // The byte of the original that a byte of the text begins, or ends, at. Within a character that changed, those are
  // the bounds of the whole change.
  size_t original_begin(size_t position) const;
  size_t original_end(size_t position) const;

  void keep(std::string_view part);
  void change(std::string_view from, std::string_view to);

 private:
  struct Change {
    size_t begin, end, original_begin, original_end;
  };
  const Change* last_change_from(size_t position) const;

  std::string text_;
  size_t num_original_ = 0;
  std::vector<Change> changes_;
};

// Nothing where the text is in NFC already. Bytes that are not UTF-8 stay.
std::optional<NormalizedText> normalize_nfc(std::string_view text);

}  // namespace gradmill
