// SPDX-License-Identifier: Apache-2.0
// Moves 8 x 8 matrices of 16-bit elements between shared memory and registers.
#include <fmt/format.h>
#include <immintrin.h>

#include "paper_gpu/ptx/access.h"
#include "paper_gpu/ptx/decode.h"
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

// Exchanges rows and columns.
void transpose(__m128i (&rows)[kRows]) {
  __m128i pairs[kRows], fours[kRows];
  for (int n = 0; n < 4; ++n) {
    pairs[2 * n] = _mm_unpacklo_epi16(rows[n], rows[n + 4]);
    pairs[2 * n + 1] = _mm_unpackhi_epi16(rows[n], rows[n + 4]);
  }
  for (int n = 0; n < 4; ++n) {
    fours[2 * n] = _mm_unpacklo_epi16(pairs[n], pairs[n + 4]);
    fours[2 * n + 1] = _mm_unpackhi_epi16(pairs[n], pairs[n + 4]);
  }
  for (int n = 0; n < 4; ++n) {
    rows[2 * n] = _mm_unpacklo_epi16(fours[n], fours[n + 4]);
    rows[2 * n + 1] = _mm_unpackhi_epi16(fours[n], fours[n + 4]);
  }
}
__m128i load_row(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
void store_row(void* to, __m128i row) { _mm_storeu_si128(static_cast<__m128i*>(to), row); }

// Lane 4g + t has elements 2t and 2t + 1 of row g, or of column g of a transposed matrix.
template <bool kLoad, bool kTransposed>
void move_matrices(Warp& warp, const Instruction& i, uint32_t) {
  for (size_t n = 0; n < i.list.size(); ++n) {
    uint8_t* places[kRows];
    find_rows<kLoad>(warp, i, static_cast<int>(n), places);
    auto* const d = warp.at<uint32_t>(i.list[n]);
    __m128i rows[kRows];
    for (int r = 0; r < kRows; ++r) rows[r] = load_row(kLoad ? static_cast<const void*>(places[r]) : d + 4 * r);
    if constexpr (kTransposed) transpose(rows);
    for (int r = 0; r < kRows; ++r) store_row(kLoad ? static_cast<void*>(d + 4 * r) : places[r], rows[r]);
  }
}

void move_transposed(Warp& warp, const Instruction& i, uint32_t) {
  const auto* const a = warp.at<uint32_t>(i.a);
  auto* const d = warp.at<uint32_t>(i.d);
  __m128i rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = load_row(a + 4 * r);
  transpose(rows);
  for (int r = 0; r < kRows; ++r) store_row(d + 4 * r, rows[r]);
}

}  // namespace

bool decode_matrix(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  const bool load = s.parts[0] == "ldmatrix";
  if (s.parts[0] == "movmatrix") {
    i.flow = Flow::collective;
    i.run = move_transposed;
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
