// SPDX-License-Identifier: Apache-2.0
// A rewritten text that knows which part of the original each of its parts came from.
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
  // The position in the original that corresponds to a begin or end in this text. Within a changed part, it is the
  // begin or end of the whole change.
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

// Builds a NormalizedText from changes, reported from left to right. Text between the changes is kept.
class Rewriter {
 public:
  // Unless `tracked`, the result has no positions in the original.
  Rewriter(std::string_view text, bool tracked) : original_(text), tracked_(tracked) {}

  std::string_view original() const { return original_; }
  void replace(size_t begin, size_t end, std::string_view with);
  // Removes copies of the non-empty `suffix` from the end of the whole result. No replace() may follow.
  void strip_end(std::string_view suffix);
  // Returns nothing if nothing changed.
  std::optional<NormalizedText> finish();

 private:
  std::string_view original_;
  bool tracked_;
  size_t num_done_ = 0;
  std::optional<NormalizedText> result_;
};

}  // namespace gradmill
