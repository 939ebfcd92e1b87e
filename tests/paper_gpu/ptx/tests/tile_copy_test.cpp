// SPDX-License-Identifier: Apache-2.0
// Tiles of a matrix copied with tensor maps: the location of each chunk of 16 bytes in shared memory, zeros outside the
// matrix, copies to several blocks of a cluster, and stores.
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "paper_gpu/ptx/tests/kernel.h"

namespace gradmill::paper::ptx::test {
namespace {

constexpr int kColumns = 72, kRows = 20, kPitch = 80, kChunk = 8;  // elements of 16 bits

// A matrix in global memory that ends with its last element. There are gaps between its rows.
class Matrix {
 public:
  Matrix() : data_((kRows - 1) * kPitch + kColumns, true) {}
  void fill_with_noise() {
    restart_random();
    for (uint16_t& each : data_) each = static_cast<uint16_t>(random_bits() | 1);
  }
  void fill(uint16_t value) { std::fill(data_.begin(), data_.end(), value); }
  // The element at this column and row, or null outside of the matrix.
  const uint16_t* at(int column, int row) const {
    const bool inside = column >= 0 && column < kColumns && row >= 0 && row < kRows;
    return inside ? &data_[static_cast<size_t>(row * kPitch + column)] : nullptr;
  }
  const Buffer<uint16_t>& data() const { return data_; }

 private:
  Buffer<uint16_t> data_;
};

struct Box {
  CUtensorMapSwizzle swizzle;
  int columns, rows;

  size_t bytes() const { return sizeof(uint16_t) * static_cast<size_t>(columns * rows); }
  // The position of a tile's element, in elements. A row of the pattern has 128 bytes; its chunks are permuted by the
  // row's number modulo 8, 4 or 2.
  size_t place(int column, int row) const {
    const int chunk = column / kChunk;
    int other = chunk;
    if (swizzle == CU_TENSOR_MAP_SWIZZLE_128B) other = chunk ^ row % 8;
    if (swizzle == CU_TENSOR_MAP_SWIZZLE_64B) other = chunk ^ row / 2 % 4;
    if (swizzle == CU_TENSOR_MAP_SWIZZLE_32B) other = chunk ^ row / 4 % 2;
    return static_cast<size_t>(row * columns + other * kChunk + column % kChunk);
  }
};

constexpr Box kBoxes[] = {{CU_TENSOR_MAP_SWIZZLE_128B, 64, 16}, {CU_TENSOR_MAP_SWIZZLE_64B, 32, 16},
                          {CU_TENSOR_MAP_SWIZZLE_32B, 16, 16},  {CU_TENSOR_MAP_SWIZZLE_NONE, 24, 12},
                          {CU_TENSOR_MAP_SWIZZLE_NONE, 8, 3},   {CU_TENSOR_MAP_SWIZZLE_128B, 64, 9}};
// Column and row. The matrix ends inside tiles, before and after them.
constexpr int kCorners[][2] = {{0, 0},   {8, 3},   {64, 0},  {3, 1},    {61, 17},  {0, 15},  {-8, -2},
                               {-5, 0},  {-61, 4}, {72, 0},  {0, 20},   {-64, 0},  {0, -16}, {-3, -15},
                               {71, 19}, {68, -1}, {100, 0}, {9, 1000}, {-200, 2}, {1, 9}};

CUtensorMap encoded(const Matrix& matrix, const Box& box) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
            cudaSuccess);
  const cuuint64_t sizes[] = {kColumns, kRows}, strides[] = {kPitch * sizeof(uint16_t)};
  const cuuint32_t shape[] = {static_cast<cuuint32_t>(box.columns), static_cast<cuuint32_t>(box.rows)};
  const cuuint32_t steps[] = {1, 1};
  CUtensorMap map;
  EXPECT_EQ(reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function)(
                &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<uint16_t*>(matrix.data().begin()), sizes, strides,
                shape, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, box.swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            CUDA_SUCCESS);
  return map;
}

// %rd101: the map, %rd1: the output, %rd102: column and row. Each block has a tile of up to 2048 bytes at %r10 and a
// barrier at %r30; %p1 is false for its first thread.
const std::string kStart = R"(
	.shared .align 1024 .b8 tile[2048];
	.shared .align 8 .b8 barrier[8];
	mov.u32 %r10, tile;
	mov.u32 %r30, barrier;
	cvt.u32.u64 %r31, %rd103;
	shr.u64 %rd20, %rd103, 32;
	cvt.u32.u64 %r32, %rd20;
	setp.ne.s32 %p1, %r1, 0;
)";
const std::string kMakeBarrier = R"(
	@%p1 bra $L_made;
	mbarrier.init.shared::cta.b64 [%r30], 1;
	fence.mbarrier_init.release.cluster;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], $bytes;
$L_made:
)";
// Copies the tile from shared memory to the block's tile in global memory, 4 bytes at a time.
const std::string kWriteTile = R"(
	mov.u32 %r40, %r1;
$L_write:
	setp.ge.u32 %p2, %r40, $words;
	@%p2 bra $L_written;
	shl.b32 %r41, %r40, 2;
	add.s32 %r42, %r10, %r41;
	ld.shared.u32 %r43, [%r42];
	mad.lo.s32 %r44, %r2, $bytes, %r41;
	cvt.u64.u32 %rd30, %r44;
	add.s64 %rd31, %rd2, %rd30;
	st.global.u32 [%rd31], %r43;
	add.s32 %r40, %r40, 32;
	bra.uni $L_write;
$L_written:
)";

// Passes maps like the compiler: by value, at an address of a parameter.
std::string with_map_as_parameter(const Source& source) {
  return with(text_of(source), {{".param .u64 test_param_0", ".param .align 64 .b8 test_param_0[128]"},
                                {"ld.param.u64 \t%rd101, [test_param_0];\n\tcvta.to.global.u64 \t%rd1, %rd101;",
                                 "mov.b64 \t%rd120, test_param_0;\n\tcvta.param.u64 \t%rd101, %rd120;"}});
}

struct Params {
  CUtensorMap map;
  uint64_t data;
  int32_t column, row;
};

std::string run_tiles(const Source& source, const Box& box, const Launch& launch, const Params& params,
                      const RunOptions& options = {}) {
  const std::string bytes = std::to_string(box.bytes()), words = std::to_string(box.bytes() / 4);
  const std::string text = with(with_map_as_parameter(source), {{"$bytes", bytes}, {"$words", words}});
  return run_text(text, launch, std::as_bytes(std::span(&params, 1)), options);
}

constexpr RunOptions kArrivals[] = {{}, {.arrival = Arrival::early}, {.arrival = Arrival::shuffled, .seed = 1}};

void expect_tile(const Matrix& matrix, const Box& box, const int (&corner)[2], const uint16_t* tile) {
  for (int row = 0; row < box.rows; ++row) {
    for (int column = 0; column < box.columns; ++column) {
      const uint16_t* const from = matrix.at(corner[0] + column, corner[1] + row);
      ASSERT_EQ(tile[box.place(column, row)], from == nullptr ? 0 : *from)
          << "column " << column << ", row " << row << " of the tile at " << corner[0] << ", " << corner[1];
    }
  }
}

TEST(TileCopy, Loads) {
  Matrix matrix;
  matrix.fill_with_noise();
  const Source source{kStart + kMakeBarrier + R"(
	bar.sync 0;
	@!%p1 cp.async.bulk.prefetch.tensor.2d.L2.global [%rd101, {%r31, %r32}];
	@!%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd101, {%r31, %r32}], [%r30];
)" + wait_for("%r30", "0") +
                          kWriteTile,
                      3};
  for (const Box& box : kBoxes) {
    const CUtensorMap map = encoded(matrix, box);
    for (const auto& corner : kCorners) {
      for (const RunOptions& options : kArrivals) {
        Buffer<uint16_t> out(box.bytes() / 2, false);
        ASSERT_EQ(run_tiles(source, box, blocks_of(32), {map, out, corner[0], corner[1]}, options), "");
        expect_tile(matrix, box, corner, out.begin());
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The second block of a cluster requests a tile that goes to both; each waits at its own barrier.
TEST(TileCopy, LoadsOfAllBlocksOfACluster) {
  Matrix matrix;
  matrix.fill_with_noise();
  const Source source{kStart + kMakeBarrier + R"(
	barrier.cluster.arrive.release.aligned;
	barrier.cluster.wait.acquire.aligned;
	mov.u16 %rs10, 3;
	setp.ne.s32 %p3, %r2, 1;
	or.pred %p4, %p1, %p3;
	@!%p4 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r10], [%rd101, {%r31, %r32}], [%r30], %rs10;
)" + wait_for("%r30", "0") +
                          kWriteTile +
                          R"(
	barrier.cluster.arrive.release.aligned;
	barrier.cluster.wait.acquire.aligned;)",
                      3};
  const Box box = kBoxes[0];
  const int corner[] = {5, 7};
  for (const RunOptions& options : kArrivals) {
    Buffer<uint16_t> out(box.bytes(), false);
    ASSERT_EQ(
        run_tiles(source, box, blocks_of(32, 2, 0, 2), {encoded(matrix, box), out, corner[0], corner[1]}, options), "");
    for (const size_t block : {0, 1}) expect_tile(matrix, box, corner, out.begin() + block * box.bytes() / 2);
  }
}

// Nothing outside the matrix is written, neither between its rows nor after it.
TEST(TileCopy, Stores) {
  constexpr uint16_t kBefore = 0xeeee;
  for (const std::string hint : {"", ".L2::cache_hint"}) {
    const Source source{kStart + R"(
	mov.u32 %r40, %r1;
$L_read:
	setp.ge.u32 %p2, %r40, $words;
	@%p2 bra $L_ready;
	shl.b32 %r41, %r40, 2;
	add.s32 %r42, %r10, %r41;
	cvt.u64.u32 %rd30, %r41;
	add.s64 %rd31, %rd2, %rd30;
	ld.global.u32 %r43, [%rd31];
	st.shared.u32 [%r42], %r43;
	add.s32 %r40, %r40, 32;
	bra.uni $L_read;
$L_ready:
	fence.proxy.async.shared::cta;
	bar.sync 0;
	@%p1 bra $L_end;
	createpolicy.fractional.L2::evict_first.b64 %rd21, 1.0;
	cp.async.bulk.tensor.2d.global.shared::cta.bulk_group)" +
                            hint + " [%rd101, {%r31, %r32}], [%r10]" + (hint.empty() ? "" : ", %rd21") + R"(;
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group 0;
$L_end:)",
                        3};
    for (const Box& box : kBoxes) {
      restart_random();
      Buffer<uint16_t> in(box.bytes() / 2);
      for (uint16_t& each : in) each = static_cast<uint16_t>(random_bits());
      for (const auto& corner : kCorners) {
        Matrix matrix;
        matrix.fill(kBefore);
        ASSERT_EQ(run_tiles(source, box, blocks_of(32), {encoded(matrix, box), in, corner[0], corner[1]}), "");
        for (int row = 0; row < kRows; ++row) {
          for (int column = 0; column < kColumns; ++column) {
            const int x = column - corner[0], y = row - corner[1];
            const bool inside = x >= 0 && x < box.columns && y >= 0 && y < box.rows;
            ASSERT_EQ(*matrix.at(column, row), inside ? in[box.place(x, y)] : kBefore)
                << "column " << column << ", row " << row << " after a tile at " << corner[0] << ", " << corner[1];
          }
        }
        for (int row = 0; row + 1 < kRows; ++row) {
          for (int at = row * kPitch + kColumns; at < (row + 1) * kPitch; ++at) {
            ASSERT_EQ(matrix.data()[static_cast<size_t>(at)], kBefore) << "between rows, at " << at;
          }
        }
      }
    }
  }
}

TEST(TileCopy, WhatIsRefused) {
  Matrix matrix;
  const Box box = kBoxes[0];
  const std::string load =
      "@!%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [$to], [%rd101, {%r31, "
      "%r32}], "
      "[%r30];\n";
  const auto loads = [&](const std::string& to, const std::string& before, const std::string& after = "") {
    return Source{kStart + kMakeBarrier + "bar.sync 0; add.s32 %r50, %r10, 16; add.s32 %r51, %r10, 1024;" + before +
                      with(load, {{"$to", to}}) + (after.empty() ? wait_for("%r30", "0") : after) + kWriteTile,
                  3};
  };
  Buffer<uint16_t> out(box.bytes() / 2, false);
  const CUtensorMap map = encoded(matrix, box);
  const auto finding = [&](const Source& source, const CUtensorMap& with_map) {
    return run_tiles(source, box, blocks_of(32), {with_map, out, 0, 0});
  };
  EXPECT_EQ(finding(loads("%r10", ""), map), "");
  EXPECT_NE(finding(loads("%r50", ""), map).find("128"), std::string::npos) << "at a place that 128 does not divide";
  EXPECT_NE(finding(loads("%r51", ""), map).find("shared memory"), std::string::npos) << "past the end";
  EXPECT_NE(finding(loads("%r10", "add.s64 %rd101, %rd101, 32;"), map).find("aligned"), std::string::npos);
  EXPECT_NE(finding(loads("%r10", ""), CUtensorMap{}).find("never made"), std::string::npos);
  const std::string too_early = finding(loads("%r10", "", " "), map);
  EXPECT_NE(too_early.find("waited for"), std::string::npos) << too_early;
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
