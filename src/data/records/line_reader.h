// SPDX-License-Identifier: Apache-2.0
// LineReader: the lines of a ByteSource.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/records/byte_source.h"

namespace gradmill {

struct TextLine {
  std::string_view text;    // without its end; kReadAhead bytes behind it may be read
  std::string_view ending;  // "\n", "\r\n", or nothing at the end of a file
  int64_t number = 0;       // from 1
  bool too_long = false;    // over the limit: `text` is empty, the line was passed over
};

class LineReader {
 public:
  // A line may have max_bytes bytes without its end; longer ones are not kept in memory.
  LineReader(std::unique_ptr<ByteSource> source, int64_t max_bytes);

  // False at the end, also behind a last line end. The line's views are valid until the next call. A byte order mark at
  // the start of the file is dropped.
  bool next(TextLine& line);
  const std::filesystem::path& path() const { return source_->path(); }

 private:
  bool refill();
  void keep(std::string_view part);
  std::string_view kept();
  void finish(TextLine& line, std::string_view raw, bool ended) const;

  std::unique_ptr<ByteSource> source_;
  size_t max_bytes_;
  std::string_view chunk_;  // of the source, from the next line on
  std::string partial_;     // a line that spans chunks
  bool overflow_ = false;   // partial_ was over the limit and is gone
  int64_t number_ = 0;
};

}  // namespace gradmill
