// SPDX-License-Identifier: Apache-2.0
// Products by a warp: mma.sync of 16 x 8 results.
#include <cstring>

#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/elements.h"
#include "paper_gpu/ptx/lanes.h"

namespace gradmill::paper::ptx {
namespace {

constexpr int kRows = 16, kColumns = 8;

// Lane 4g + t has, of a register, neighbouring elements of row (or column) g: a register's lanes are eight rows of 16
// bytes. kDepth steps of k; registers go by eight rows first, then by 16 bytes of k.
template <class E, int kDepth>
void widen_left(Warp& warp, const Slot* slots, float (&a)[kRows][kDepth]) {
  constexpr int kParts = kDepth / E::kCount;  // of 16 bytes
  for (int part = 0; part < kParts; ++part) {
    for (int half = 0; half < 2; ++half) {
      const auto* const bytes = warp.at<uint8_t>(slots[2 * part + half]);
      for (int g = 0; g < 8; ++g) E::widen(bytes + 16 * g, &a[g + 8 * half][part * E::kCount]);
    }
  }
}
template <class E, int kDepth>
void widen_right(Warp& warp, const Slot* slots, float (&b)[kDepth][kColumns]) {
  constexpr int kParts = kDepth / E::kCount;
  for (int part = 0; part < kParts; ++part) {
    const auto* const bytes = warp.at<uint8_t>(slots[part]);
    float row[E::kCount];
    for (int g = 0; g < 8; ++g) {
      E::widen(bytes + 16 * g, row);
      for (int k = 0; k < E::kCount; ++k) b[part * E::kCount + k][g] = row[k];
    }
  }
}

// sum = the products of one block of k.
template <int kDepth>
void multiply(const float (&a)[kRows][kDepth], const float (&b)[kDepth][kColumns], float (&c)[kRows][kColumns]) {
  for (int first = 0; first < kDepth; first += kBlock) {
    constexpr int kSteps = kDepth < kBlock ? kDepth : kBlock;
    for (int row = 0; row < kRows; ++row) {
      float sum[kColumns] = {};
      for (int k = first; k < first + kSteps; ++k) {
        for (int n = 0; n < kColumns; ++n) sum[n] = std::fma(a[row][k], b[k][n], sum[n]);
      }
      for (int n = 0; n < kColumns; ++n) c[row][n] += sum[n];
    }
  }
}

// Of lane 4g + t: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
void read_sums(Warp& warp, const Slot* slots, float (&c)[kRows][kColumns]) {
  for (int r = 0; r < 4; ++r) {
    const auto* const values = warp.at<float>(slots[r]);
    for (int lane = 0; lane < kLanes; ++lane) c[lane / 4 + r / 2 * 8][2 * (lane % 4) + r % 2] = values[lane];
  }
}
void write_sums(Warp& warp, const Slot* slots, const float (&c)[kRows][kColumns]) {
  for (int r = 0; r < 4; ++r) {
    auto* const values = warp.at<float>(slots[r]);
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = c[lane / 4 + r / 2 * 8][2 * (lane % 4) + r % 2];
  }
}
// The same in fp16, two in a register.
void read_short_sums(Warp& warp, const Slot* slots, float (&c)[kRows][kColumns]) {
  for (int r = 0; r < 2; ++r) {
    const auto* const values = warp.at<uint32_t>(slots[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int k = 0; k < 2; ++k)
        c[lane / 4 + r * 8][2 * (lane % 4) + k] = unpack<Half>(values[lane] >> (16 * k) & 0xffff).number();
    }
  }
}
void write_short_sums(Warp& warp, const Slot* slots, const float (&c)[kRows][kColumns]) {
  for (int r = 0; r < 2; ++r) {
    auto* const values = warp.at<uint32_t>(slots[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const float* const pair = &c[lane / 4 + r * 8][2 * (lane % 4)];
      values[lane] = Half::rounded(pair[0]) | uint32_t{Half::rounded(pair[1])} << 16;
    }
  }
}

// list: results, left, right and sums.
template <class Left, class Right, int kDepth, bool kShortSums>
void mma(Warp& warp, const Instruction& i, uint32_t) {
  constexpr size_t kSums = kShortSums ? 2 : 4, kLeft = 2 * kDepth / Left::kCount, kRight = kDepth / Right::kCount;
  const Slot* const slots = i.list.data();
  alignas(64) float a[kRows][kDepth], b[kDepth][kColumns], c[kRows][kColumns];
  widen_left<Left, kDepth>(warp, slots + kSums, a);
  widen_right<Right, kDepth>(warp, slots + kSums + kLeft, b);
  const Slot* const before = slots + kSums + kLeft + kRight;
  kShortSums ? read_short_sums(warp, before, c) : read_sums(warp, before, c);
  multiply<kDepth>(a, b, c);
  kShortSums ? write_short_sums(warp, slots, c) : write_sums(warp, slots, c);
  if (Counts* const counts = grid_of(warp).counts) counts->matrix_flops += 2 * kRows * kColumns * kDepth;
}

template <int kDepth>
Handler eight_bit_handler(std::string_view left, std::string_view right) {
  using X = EightBitElements<E4M3>;
  using Y = EightBitElements<E5M2>;
  const bool x = left == "e4m3", y = right == "e4m3";
  if (x) return y ? mma<X, X, kDepth, false> : mma<X, Y, kDepth, false>;
  return y ? mma<Y, X, kDepth, false> : mma<Y, Y, kDepth, false>;
}

Handler handler_of(const Statement& s) {
  // …row.col.d.a.b.c
  const size_t n = s.parts.size();
  const std::string_view sums = s.parts[n - 4], left = s.parts[n - 3], right = s.parts[n - 2];
  const bool deep = s.has("m16n8k16"), half_sums = sums == "f16";
  if (left == "f16" && deep)
    return half_sums ? mma<HalfElements, HalfElements, 16, true> : mma<HalfElements, HalfElements, 16, false>;
  if (left == "f16" && s.has("m16n8k8")) {
    return half_sums ? mma<HalfElements, HalfElements, 8, true> : mma<HalfElements, HalfElements, 8, false>;
  }
  if (left == "bf16" && deep) return mma<BrainElements, BrainElements, 16, false>;
  if (left == "bf16" && s.has("m16n8k8")) return mma<BrainElements, BrainElements, 8, false>;
  if (left == "tf32" && s.has("m16n8k8")) return mma<TensorFloatElements, TensorFloatElements, 8, false>;
  if (left == "tf32" && s.has("m16n8k4")) return mma<TensorFloatElements, TensorFloatElements, 4, false>;
  const bool eight_bits = (left == "e4m3" || left == "e5m2") && (right == "e4m3" || right == "e5m2") && sums == "f32";
  if (eight_bits && s.has("m16n8k32")) return eight_bit_handler<32>(left, right);
  if (eight_bits && deep) return eight_bit_handler<16>(left, right);
  return nullptr;
}

}  // namespace

bool decode_mma(Decoder& decoder) {
  const Statement& s = decoder.s;
  if (s.parts[0] != "mma" || !s.has("row") || !s.has("col") || s.parts.size() < 8) return false;
  Instruction& i = decoder.i;
  i.run = handler_of(s);
  if (i.run == nullptr) return false;
  i.flow = Flow::collective;
  decoder.write_list(decoder.operand(0), false);
  for (size_t n = 1; n < 4; ++n) decoder.read_list(decoder.operand(n), false);
  return true;
}

}  // namespace gradmill::paper::ptx
