// SPDX-License-Identifier: Apache-2.0
// Matrices of 8 rows of 16 bytes between shared memory and the lanes of a warp.
#include <algorithm>
#include <numeric>

#include "paper_gpu/ptx/tests/kernel.h"

namespace gradmill::paper::ptx::test {
namespace {

constexpr size_t kRows = 64;  // of 16 bytes

// Fills the tile from %rd1, and sets %r20 to the address that %rd2 gives for the lane, in rows.
const std::string kPrepare = R"(
	.shared .align 128 .b8 tile[1024];
	mov.u32 %r10, tile;
	shl.b32 %r11, %r1, 5;
	cvt.u64.u32 %rd10, %r11;
	add.s64 %rd11, %rd1, %rd10;
	add.s32 %r12, %r10, %r11;
	ld.global.v4.u32 {%r13, %r14, %r15, %r16}, [%rd11];
	st.shared.v4.u32 [%r12], {%r13, %r14, %r15, %r16};
	ld.global.v4.u32 {%r13, %r14, %r15, %r16}, [%rd11+16];
	st.shared.v4.u32 [%r12+16], {%r13, %r14, %r15, %r16};
	bar.sync 0;
	mul.wide.u32 %rd12, %r1, 4;
	add.s64 %rd13, %rd2, %rd12;
	ld.global.u32 %r17, [%rd13];
	shl.b32 %r18, %r17, 4;
	add.s32 %r20, %r10, %r18;
	mul.wide.u32 %rd14, %r1, 16;
	add.s64 %rd15, %rd3, %rd14;
)";

struct Tile {
  Tile() {
    restart_random();
    for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint16_t>(i * 257 + 1);
    std::vector<uint32_t> all(kRows);
    std::iota(all.begin(), all.end(), 0);
    for (size_t i = kRows - 1; i > 0; --i) std::swap(all[i], all[random_bits() % (i + 1)]);
    std::copy(all.begin(), all.begin() + 32, rows.begin());
  }
  // The element of the row at the given lane's address.
  uint16_t at(size_t lane, size_t column) const { return words[rows[lane] * 8 + column]; }

  Buffer<uint16_t> words = Buffer<uint16_t>(kRows * 8);
  Buffer<uint32_t> rows = Buffer<uint32_t>(32);
  Buffer<uint32_t> registers = Buffer<uint32_t>(128);
};

// The lane's part of matrix i: two elements of row lane / 4, or of that column.
std::pair<size_t, size_t> place(size_t lane, size_t half, bool transposed) {
  const size_t along = lane % 4 * 2 + half, across = lane / 4;
  return transposed ? std::pair(along, across) : std::pair(across, along);
}

void expect_loads(int count, bool transposed) {
  Tile tile;
  const std::string list = "{" + registers("%r", 30, count) + "}";
  std::string body = kPrepare + "\tldmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
                     (transposed ? ".trans" : "") + ".shared.b16 " + list + ", [%r20];\n";
  for (int i = 0; i < count; ++i) {
    body += "\tst.global.u32 [%rd15+" + std::to_string(4 * i) + "], %r" + std::to_string(30 + i) + ";\n";
  }
  ASSERT_EQ(run_source({body, 3}, blocks_of(32), {tile.words, tile.rows, tile.registers}), "");
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      for (size_t half = 0; half < 2; ++half) {
        const auto [row, column] = place(lane, half, transposed);
        ASSERT_EQ(tile.registers[lane * 4 + i] >> (16 * half) & 0xffff, tile.at(8 * i + row, column))
            << "matrix " << i << " in lane " << lane;
      }
    }
  }
}

TEST(MatrixMove, Loads) {
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) expect_loads(count, transposed);
  }
}

// Stores the lanes' values from %rd3, and copies the whole tile back to %rd1.
void expect_stores(int count, bool transposed) {
  Tile tile;
  for (uint32_t& each : tile.registers) each = static_cast<uint32_t>(random_bits());
  const std::vector<uint16_t> before(tile.words.begin(), tile.words.end());
  const std::string list = "{" + registers("%r", 30, count) + "}";
  std::string body = kPrepare;
  for (int i = 0; i < count; ++i) {
    body += "\tld.global.u32 %r" + std::to_string(30 + i) + ", [%rd15+" + std::to_string(4 * i) + "];\n";
  }
  body += "\tstmatrix.sync.aligned.m8n8.x" + std::to_string(count) + (transposed ? ".trans" : "") +
          ".shared.b16 [%r20], " + list + ";\n";
  body += R"(	bar.sync 0;
	ld.shared.v4.u32 {%r13, %r14, %r15, %r16}, [%r12];
	st.global.v4.u32 [%rd11], {%r13, %r14, %r15, %r16};
	ld.shared.v4.u32 {%r13, %r14, %r15, %r16}, [%r12+16];
	st.global.v4.u32 [%rd11+16], {%r13, %r14, %r15, %r16};)";
  ASSERT_EQ(run_source({body, 3}, blocks_of(32), {tile.words, tile.rows, tile.registers}), "");
  std::vector<uint16_t> expected = before;
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      for (size_t half = 0; half < 2; ++half) {
        const auto [row, column] = place(lane, half, transposed);
        expected[tile.rows[8 * i + row] * 8 + column] =
            static_cast<uint16_t>(tile.registers[lane * 4 + i] >> (16 * half));
      }
    }
  }
  EXPECT_EQ(std::vector<uint16_t>(tile.words.begin(), tile.words.end()), expected);
}

TEST(MatrixMove, Stores) {
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) expect_stores(count, transposed);
  }
}

TEST(MatrixMove, Transposes) {
  const Source source{R"(
	mul.wide.u32 %rd10, %r1, 4;
	add.s64 %rd11, %rd1, %rd10;
	ld.global.u32 %r10, [%rd11];
	movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r10;
	add.s64 %rd12, %rd2, %rd10;
	st.global.u32 [%rd12], %r11;)",
                      2};
  Buffer<uint16_t> in(64), out(64);
  for (size_t i = 0; i < 64; ++i) in[i] = static_cast<uint16_t>(1000 + i);
  ASSERT_EQ(run_source(source, blocks_of(32), {in, out}), "");
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], in[i % 8 * 8 + i / 8]);
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
