// SPDX-License-Identifier: Apache-2.0
#include "data/records/text_reader.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/utf8.h"
#include "data/records/line_reader.h"

namespace gradmill {
namespace {

constexpr size_t kPart = size_t{1} << 16;

std::string field_name(const ReadOptions& options) {
  return options.fields.empty() ? std::string("text") : options.fields.front().name;
}

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

class TextLines : public RecordReader {
 public:
  TextLines(std::unique_ptr<ByteSource> source, const ReadOptions& options, BadRecords& bad)
      : lines_(std::move(source), options.max_record_bytes),
        max_bytes_(options.max_record_bytes),
        name_(field_name(options)),
        bad_(bad) {}

  bool next(Record& record) override {
    TextLine line;
    while (lines_.next(line)) {
      if (line.too_long) {
        bad_.report(BadRecord::too_long, lines_.path(), line.number, fmt::format("longer than {} bytes", max_bytes_));
      } else if (!is_utf8(line.text)) {
        bad_.report(BadRecord::not_utf8, lines_.path(), line.number, "not valid UTF-8");
      } else if (!line.text.empty()) {
        record.clear();
        record.file = lines_.path().native();
        record.line = line.number;
        record.add(name_).value = line.text;
        return true;
      }
    }
    return false;
  }

 private:
  LineReader lines_;
  int64_t max_bytes_;
  std::string name_;
  BadRecords& bad_;
};

// Chooses how many bytes of `text`, which is not the whole file, to return as one part.
size_t part_size(std::string_view text) {
  for (char end : {'\n', ' '}) {
    const size_t at = text.rfind(end);
    if (at != std::string_view::npos) return at + 1;
  }
  size_t size = text.size();
  // Does not cut inside a character, unless the bytes are not valid UTF-8 anyway.
  while (size > 1 && text.size() - size < 4 && (static_cast<unsigned char>(text[size - 1]) & 0xc0u) == 0x80u) --size;
  if (size > 1 && static_cast<unsigned char>(text[size - 1]) >= 0xc0u) return size - 1;
  return text.size();
}

class TextParts : public RecordReader {
 public:
  TextParts(std::unique_ptr<ByteSource> source, const ReadOptions& options, BadRecords& bad)
      : source_(std::move(source)),
        part_bytes_(std::min(kPart, static_cast<size_t>(options.max_record_bytes))),
        name_(field_name(options)),
        bad_(bad) {}

  bool next(Record& record) override {
    // Reads one byte more than a part, to know whether it is the last.
    while (fill(part_bytes_ + 1)) {
      const std::string_view all = std::string_view(text_).substr(begin_);
      const bool last = all.size() <= part_bytes_;
      const std::string_view part = last ? all : all.substr(0, part_size(all.substr(0, part_bytes_)));
      const int64_t line = line_;
      line_ += std::ranges::count(part, '\n');
      begin_ += part.size();
      if (!is_utf8(part)) {
        bad_.report(BadRecord::not_utf8, source_->path(), line, "not valid UTF-8 on this or a following line");
        continue;
      }
      record.clear();
      record.file = source_->path().native();
      record.line = line;
      record.continues = !last;
      record.add(name_).value = part;
      return true;
    }
    return false;
  }

 private:
  // Returns false if no bytes remain.
  bool fill(size_t size) {
    if (text_.size() - begin_ >= size) return true;
    text_.erase(0, std::exchange(begin_, 0));
    while (text_.size() < size) {
      const std::string_view bytes = source_->next();
      if (bytes.empty()) break;
      text_ += bytes;
      if (std::exchange(at_start_, false) && text_.starts_with(kByteOrderMark)) text_.erase(0, kByteOrderMark.size());
    }
    return !text_.empty();
  }

  std::unique_ptr<ByteSource> source_;
  size_t part_bytes_;
  std::string name_;
  BadRecords& bad_;
  std::string text_;  // the bytes from begin_ on have not been returned yet
  size_t begin_ = 0;
  int64_t line_ = 1;
  bool at_start_ = true;
};

}  // namespace

std::unique_ptr<RecordReader> open_text(std::unique_ptr<ByteSource> source, const ReadOptions& options,
                                        BadRecords& bad) {
  if (options.text_lines) return std::make_unique<TextLines>(std::move(source), options, bad);
  return std::make_unique<TextParts>(std::move(source), options, bad);
}

}  // namespace gradmill
