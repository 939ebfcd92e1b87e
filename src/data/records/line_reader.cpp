// SPDX-License-Identifier: Apache-2.0
#include "data/records/line_reader.h"

#include <cassert>

#include "core/utf8.h"

namespace gradmill {

LineReader::LineReader(std::unique_ptr<ByteSource> source, int64_t max_bytes)
    : source_(std::move(source)), max_bytes_(static_cast<size_t>(max_bytes)) {
  assert(max_bytes > 0);
}

bool LineReader::next(TextLine& line) {
  partial_.clear();
  overflow_ = false;
  if (chunk_.empty() && !refill()) return false;
  ++number_;
  for (bool spans = false;; spans = true) {
    const size_t end = chunk_.find('\n');
    if (end != std::string_view::npos) {
      const std::string_view part = chunk_.substr(0, end);
      chunk_.remove_prefix(end + 1);
      if (spans) keep(part);
      finish(line, spans ? kept() : part, true);
      return true;
    }
    keep(chunk_);
    if (!refill()) {
      finish(line, kept(), false);
      return true;
    }
  }
}

bool LineReader::refill() {
  chunk_ = source_->next();
  return !chunk_.empty();
}

void LineReader::keep(std::string_view part) {
  // Allows for a byte order mark and a carriage return, which do not count.
  if (partial_.size() + part.size() > max_bytes_ + kByteOrderMark.size() + 1) overflow_ = true;
  if (overflow_) {
    partial_.clear();
  } else {
    partial_.append(part);
  }
}

std::string_view LineReader::kept() {
  const size_t size = partial_.size();
  partial_.append(kReadAhead, '\0');
  return std::string_view(partial_).substr(0, size);
}

void LineReader::finish(TextLine& line, std::string_view raw, bool ended) const {
  const bool carriage_return = raw.ends_with('\r');
  if (carriage_return) raw.remove_suffix(1);
  if (number_ == 1 && raw.starts_with(kByteOrderMark)) raw.remove_prefix(kByteOrderMark.size());
  line.number = number_;
  line.ending = !ended ? "" : carriage_return ? "\r\n" : "\n";
  line.too_long = overflow_ || raw.size() > max_bytes_;
  line.text = line.too_long ? std::string_view() : raw;
}

}  // namespace gradmill
