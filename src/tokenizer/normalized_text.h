// SPDX-License-Identifier: Apache-2.0
// A text that was rewritten, and where each part of it came from.
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
  // The byte of the original that a byte of the text begins, or ends, at. Within a part that changed, those are the
  // bounds of the whole change.
  size_t original_begin(size_t position) const;
  size_t original_end(size_t position) const;

 private:
  friend class Rewriter;
  struct Change {
    size_t begin, end, original_begin, original_end;
  };
  const Change* last_change_from(size_t position) const;

  std::string text_;
  std::vector<Change> changes_;
};

// Makes a NormalizedText of the changes that it is told of, from left to right; what lies between them is kept.
class Rewriter {
 public:
  // Without `tracked` the result knows no places in the original.
  Rewriter(std::string_view text, bool tracked) : original_(text), tracked_(tracked) {}

  std::string_view original() const { return original_; }
  void replace(size_t begin, size_t end, std::string_view with);
  // Takes copies of `suffix`, which is not empty, off the end of the whole result. No replace() may follow.
  void strip_end(std::string_view suffix);
  // Nothing where nothing changed.
  std::optional<NormalizedText> finish();

 private:
  std::string_view original_;
  bool tracked_;
  size_t num_done_ = 0;
  std::optional<NormalizedText> result_;
};

}  // namespace gradmill
