// SPDX-License-Identifier: Apache-2.0
// 8 x 8 matrices of 16-bit elements between shared memory and registers.
#include <fmt/format.h>

#include <cstring>

#include "paper_gpu/ptx/access.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/traffic.h"

namespace gradmill::paper::ptx {
namespace {

constexpr int kRows = 8;
constexpr uint32_t kRowBytes = 16;

// Lane 8n + r has the address of row r of matrix n.
template <bool kLoad>
void find_rows(Warp& warp, const Instruction& i, int n, uint8_t* (&rows)[kRows]) {
  const bool wide = i.flags & kWideAddress;
  uint64_t addresses[kLanes] = {};
  for (int r = 0; r < kRows; ++r) {
    const int lane = kRows * n + r;
    const uint64_t base =
        wide ? warp.at<uint64_t>(i.a)[lane] - kSharedWindow * (static_cast<Space>(i.kind) == Space::generic)
             : warp.at<uint32_t>(i.a)[lane];
    const auto at = static_cast<uint32_t>(base + static_cast<uint64_t>(i.offset));
    if (at % kRowBytes != 0)
      fail(warp, 1u << lane, fmt::format("a row of a matrix at {:#x}, not aligned to 16 bytes", at));
    rows[r] = kLoad ? shared_to_read(warp, at, kRowBytes, lane) : shared_to_write(warp, at, kRowBytes, lane);
    addresses[lane] = at;
  }
  count_traffic(warp, Space::shared, addresses, 0xffu << (kRows * n), kRowBytes, !kLoad);
}

// Lane 4g + t has elements 2t and 2t + 1 of row g, or of column g of a transposed matrix.
template <bool kLoad, bool kTransposed>
void move_matrices(Warp& warp, const Instruction& i, uint32_t) {
  for (size_t n = 0; n < i.list.size(); ++n) {
    uint8_t* rows[kRows];
    find_rows<kLoad>(warp, i, static_cast<int>(n), rows);
    auto* const d = warp.at<uint32_t>(i.list[n]);
    for (int lane = 0; lane < kLanes; ++lane) {
      uint16_t pair[2];
      if constexpr (!kLoad) std::memcpy(pair, &d[lane], sizeof(pair));
      for (int k = 0; k < 2; ++k) {
        const int row = kTransposed ? 2 * (lane % 4) + k : lane / 4,
                  column = kTransposed ? lane / 4 : 2 * (lane % 4) + k;
        uint8_t* const element = rows[row] + 2 * column;
        kLoad ? std::memcpy(&pair[k], element, 2) : std::memcpy(element, &pair[k], 2);
      }
      if constexpr (kLoad) std::memcpy(&d[lane], pair, sizeof(pair));
    }
  }
}

// Rows become columns.
void transpose(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint32_t>(i.a);
  uint16_t matrix[kRows][kRows];
  for (int lane = 0; lane < kLanes; ++lane) {
    matrix[lane / 4][2 * (lane % 4)] = static_cast<uint16_t>(a[lane]);
    matrix[lane / 4][2 * (lane % 4) + 1] = static_cast<uint16_t>(a[lane] >> 16);
  }
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) {
    return matrix[2 * (lane % 4)][lane / 4] | uint32_t{matrix[2 * (lane % 4) + 1][lane / 4]} << 16;
  });
}

}  // namespace

bool decode_matrix(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  const bool load = s.parts[0] == "ldmatrix";
  if (s.parts[0] == "movmatrix") {
    i.flow = Flow::collective;
    i.run = transpose;
    decoder.all(false);
    return true;
  }
  if ((!load && s.parts[0] != "stmatrix") || !s.has("m8n8") || s.type() != "b16") return false;
  i.flow = Flow::collective;
  const bool transposed = s.has("trans");
  i.run = load ? (transposed ? move_matrices<true, true> : move_matrices<true, false>)
               : (transposed ? move_matrices<false, true> : move_matrices<false, false>);
  Space space = space_of(s);
  i.kind = static_cast<uint8_t>(space);
  if (decoder.address(kA, decoder.operand(load ? 1 : 0), i.offset, space)) i.flags |= kWideAddress;
  load ? decoder.write_list(decoder.operand(0), false) : decoder.read_list(decoder.operand(1), false);
  return true;
}

}  // namespace gradmill::paper::ptx
