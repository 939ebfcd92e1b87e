// SPDX-License-Identifier: Apache-2.0
// Products of a warp: mma.sync with 16 x 8 results.
#include <cstring>

#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/matrix_units.h"

namespace gradmill::paper::ptx {
namespace {

// The right operand, from registers whose lanes are eight columns of 16 bytes.
template <class E, int kDepth>
struct RightColumns {
  alignas(32) float values[8][kDepth];

  RightColumns(Warp& warp, const Slot* slots) {
    for (int part = 0; part < kDepth / E::kCount; ++part) {
      const auto* const bytes = warp.at<uint8_t>(slots[part]);
      for (int g = 0; g < 8; ++g) E::widen(bytes + 16 * g, &values[g][part * E::kCount]);
    }
  }
};

// Sums in registers: lane 4g + t has (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
struct Sums {
  alignas(32) float of[4][kLanes];

  void read(Warp& warp, const Slot* slots) {
    for (int r = 0; r < 4; ++r) std::memcpy(of[r], warp.at<float>(slots[r]), sizeof(of[r]));
  }
  void write(Warp& warp, const Slot* slots) const {
    for (int r = 0; r < 4; ++r) std::memcpy(warp.at<float>(slots[r]), of[r], sizeof(of[r]));
  }
  // The same in fp16, two per register.
  void read_short(Warp& warp, const Slot* slots) {
    for (int r = 0; r < 4; ++r) {
      const auto* const values = warp.at<uint32_t>(slots[r / 2]);
      for (int lane = 0; lane < kLanes; ++lane) {
        of[r][lane] = unpack<Half>(values[lane] >> (r % 2 * 16) & 0xffff).number();
      }
    }
  }
  void write_short(Warp& warp, const Slot* slots) const {
    for (int r = 0; r < 2; ++r) {
      auto* const values = warp.at<uint32_t>(slots[r]);
      for (int lane = 0; lane < kLanes; ++lane) {
        values[lane] = Half::rounded(of[2 * r][lane]) | uint32_t{Half::rounded(of[2 * r + 1][lane])} << 16;
      }
    }
  }
};

template <class E, int kDepth>
void add_products(const LeftSteps<kDepth>& left, const RightColumns<E, kDepth>& right, Sums& sums) {
  for (int block = 0; block < kDepth; block += kBlock) {
    for (int odd = 0; odd < 2; ++odd) {
      FourColumns part;
      multiply_block(
          left, [&](int k, int column) { return &right.values[column + odd][k]; }, block, part);
      for (int half = 0; half < 2; ++half) {
        for_each_part(part[half], [d = sums.of[2 * half + odd]](int lane, __m256 products) {
          _mm256_store_ps(d + lane, _mm256_add_ps(_mm256_load_ps(d + lane), products));
        });
      }
    }
  }
}

// list: results, left operand, right operand and sums.
template <class Left, class Right, int kDepth, bool kShortSums>
void mma(Warp& warp, const Instruction& i, uint32_t) {
  constexpr size_t kSums = kShortSums ? 2 : 4, kLeft = 2 * kDepth / Left::kCount, kRight = kDepth / Right::kCount;
  const Slot* const slots = i.list.data();
  LeftSteps<kDepth> left;
  left.template take_registers<Left>([&](int n) { return warp.at<uint8_t>(slots[kSums + size_t(n)]); });
  const RightColumns<Right, kDepth> right(warp, slots + kSums + kLeft);
  const Slot* const before = slots + kSums + kLeft + kRight;
  Sums sums;
  kShortSums ? sums.read_short(warp, before) : sums.read(warp, before);
  add_products(left, right, sums);
  kShortSums ? sums.write_short(warp, slots) : sums.write(warp, slots);
  if (Counts* const counts = grid_of(warp).counts) counts->matrix_flops += 2 * kMatrixRows * 8 * kDepth;
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
