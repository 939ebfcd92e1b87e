// SPDX-License-Identifier: Apache-2.0
// LineReader: splits a ByteSource into lines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/records/byte_source.h"

namespace gradmill {

struct TextLine {
  std::string_view text;    // without its line end; kReadAhead bytes after it may be read
  std::string_view ending;  // "\n", "\r\n", or empty at the end of a file
  int64_t number = 0;       // counted from 1
  bool too_long = false;    // over the limit: `text` is empty, the line was skipped
};

class LineReader {
 public:
  // A line may have max_bytes bytes without its end. Longer lines are not kept in memory.
  LineReader(std::unique_ptr<ByteSource> source, int64_t max_bytes);

  // Returns false at the end; nothing follows the last line end. The views in `line` are valid until the next call.
  // Drops a byte order mark at the start of the file.
  bool next(TextLine& line);
  const std::filesystem::path& path() const { return source_->path(); }

 private:
  bool refill();
  void keep(std::string_view part);
  std::string_view kept();
  void finish(TextLine& line, std::string_view raw, bool ended) const;

  std::unique_ptr<ByteSource> source_;
  size_t max_bytes_;
  std::string_view chunk_;  // part of the source from the next line on
  std::string partial_;     // a line that spans several chunks
  bool overflow_ = false;   // partial_ exceeded the limit and was dropped
  int64_t number_ = 0;
};

}  // namespace gradmill
