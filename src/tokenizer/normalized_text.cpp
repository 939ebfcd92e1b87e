// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/normalized_text.h"

#include <algorithm>
#include <utility>

namespace gradmill {

const NormalizedText::Change* NormalizedText::last_change_from(size_t position) const {
  const auto after = std::upper_bound(changes_.begin(), changes_.end(), position,
                                      [](size_t p, const Change& change) { return p < change.begin; });
  return after == changes_.begin() ? nullptr : &*(after - 1);
}

size_t NormalizedText::original_begin(size_t position) const {
  const Change* change = last_change_from(position);
  if (change == nullptr) return position;
  return position < change->end ? change->original_begin : position - change->end + change->original_end;
}

size_t NormalizedText::original_end(size_t position) const {
  // An end position belongs to the byte before it.
  const Change* change = position == 0 ? nullptr : last_change_from(position - 1);
  if (change == nullptr) return position;
  return position <= change->end ? change->original_end : position - change->end + change->original_end;
}

void Rewriter::replace(size_t begin, size_t end, std::string_view with) {
  if (!result_) {
    result_.emplace();
    result_->text_.reserve(original_.size() + original_.size() / 4);
  }
  std::string& text = result_->text_;
  text += original_.substr(num_done_, begin - num_done_);
  if (tracked_) result_->changes_.push_back({text.size(), text.size() + with.size(), begin, end});
  text += with;
  num_done_ = end;
}

void Rewriter::strip_end(std::string_view suffix) {
  if (!result_ && !original_.ends_with(suffix)) return;
  replace(original_.size(), original_.size(), "");
  std::string& text = result_->text_;
  while (text.ends_with(suffix)) text.resize(text.size() - suffix.size());
}

std::optional<NormalizedText> Rewriter::finish() {
  if (result_) result_->text_ += original_.substr(num_done_);
  return std::move(result_);
}

}  // namespace gradmill
