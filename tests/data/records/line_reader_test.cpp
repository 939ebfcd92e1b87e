// SPDX-License-Identifier: Apache-2.0
// Line ends, the length limit, and lines that span the source's buffers.
#include "data/records/line_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace gradmill::test {
namespace {

// Returns a text in pieces of a given size, each overwritten by the next.
class PiecesSource : public ByteSource {
 public:
  PiecesSource(std::string_view text, size_t size) : ByteSource("text"), text_(text), size_(size) {}
  std::string_view next() override {
    piece_ = text_.substr(0, size_);
    text_.erase(0, size_);
    const size_t used = piece_.size();
    piece_.append(kReadAhead, '#');
    return std::string_view(piece_).substr(0, used);
  }

 private:
  std::string text_, piece_;
  size_t size_;
};

std::vector<std::string> lines_of(std::string_view text, size_t piece, int64_t limit = 100) {
  LineReader reader(std::make_unique<PiecesSource>(text, piece), limit);
  std::vector<std::string> lines;
  for (TextLine line; reader.next(line);) {
    EXPECT_EQ(line.number, std::ssize(lines) + 1);
    lines.push_back(line.too_long ? "TOO LONG" : std::string(line.text));
    lines.back() += line.ending == "\n" ? "|" : line.ending == "\r\n" ? "||" : "";
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(LineReader, AnyPiecesGiveTheSameLines) {
  for (size_t piece = 1; piece < 20; ++piece) {
    EXPECT_EQ(lines_of("", piece), Lines{});
    EXPECT_EQ(lines_of("one", piece), Lines{"one"});
    EXPECT_EQ(lines_of("one\n", piece), Lines{"one|"});
    EXPECT_EQ(lines_of("one\r\n\r\n\ntwo\rtwo\nlast", piece), (Lines{"one||", "||", "|", "two\rtwo|", "last"}));
    EXPECT_EQ(lines_of("\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", piece), (Lines{"one|", "\xef\xbb\xbftwo|"}));
  }
}

TEST(LineReader, TheLimitIsExact) {
  for (size_t piece = 1; piece < 20; ++piece) {
    EXPECT_EQ(lines_of("12345\n123456\n1234567\r\n12\n", piece, 5),
              (Lines{"12345|", "TOO LONG|", "TOO LONG||", "12|"}));
    EXPECT_EQ(lines_of("\xef\xbb\xbf"
                       "12345\r\n12345",
                       piece, 5),
              (Lines{"12345||", "12345"}));
    EXPECT_EQ(lines_of("12\n1234567890", piece, 5), (Lines{"12|", "TOO LONG"}));
  }
}

}  // namespace
}  // namespace gradmill::test
