// SPDX-License-Identifier: Apache-2.0
// Code shared by the norm kernels of both directions: how a row is distributed over 16 to 512 neighbouring threads.
#pragma once

#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/packed.cuh"
#include "cuda/philox.cuh"
#include "cuda/reduce.cuh"
#include "ops/norm/norm.h"

namespace gradmill {
namespace {

using cuda::Packed;
using cuda::Sum;

constexpr int kMostLanes = 512;   // threads per row
constexpr int kAnyThreads = 256;  // threads per block in the kernels for any width

struct RowStats {
  float mean, rstd;
};

// Sums over the kLanes threads of a row; all of them receive the result. For rows that span several warps, these use a
// named barrier (the other rows of a block continue) and one float per warp of the block, which must not be reused
// before the next barrier.
template <int kLanes>
__device__ float row_sum(float value, float* shared) {
  if constexpr (kLanes <= cuda::kWarpSize) {
    return cuda::warp_reduce<kLanes>(value, Sum{});
  } else {
    constexpr int kWarps = kLanes / cuda::kWarpSize;
    const int thread = static_cast<int>(threadIdx.x), group = thread / kLanes;
    value = cuda::warp_reduce(value, Sum{});
    if (thread % cuda::kWarpSize == 0) shared[thread / cuda::kWarpSize] = value;
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kLanes) : "memory");
    float total = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) total += shared[group * kWarps + warp];
    return total;
  }
}

__device__ inline float rstd_of(float squares, int cols, float eps) {
  return 1.0f / sqrtf(squares / static_cast<float>(cols) + eps);
}

// The column at which pack p of a thread starts. Packs that start at `cols` or later do not exist.
template <class N, int kLanes>
__device__ int column_of(int p) {
  return (p * kLanes + static_cast<int>(threadIdx.x) % kLanes) * Packed<N>::kSize;
}

// The factor for a row's normalised values. An offset of 0 is not added, so that kernels that know it to be 0 can omit
// the addition and still give the same bits.
__device__ inline float gain_of(float weight, float offset) { return offset == 0 ? weight : __fadd_rn(weight, offset); }

// y of a pack, with weights gain_at(i). Leaves the compiler no choice of contraction, because the forward, the
// recomputation and the backward must agree in every bit. `bias` may be null.
template <class N, int kCount, class GainAt>
__device__ Packed<N, kCount> normalised(const Packed<N, kCount>& values, RowStats stats, GainAt&& gain_at,
                                        const N* bias) {
  const auto normal = [&](int i) { return __fmul_rn(__fsub_rn(values[i], stats.mean), stats.rstd); };
  if (bias == nullptr) return Packed<N, kCount>::of([&](int i) { return __fmul_rn(normal(i), gain_at(i)); });
  const auto shift = Packed<N, kCount>::load(bias);
  return Packed<N, kCount>::of([&](int i) { return __fmaf_rn(normal(i), gain_at(i), shift[i]); });
}

// Applies the dropout op to columns [column, column + kCount) of a row; `column` is a multiple of kCount. Never
// contracted with a following addition.
template <class N, int kCount>
__device__ Packed<N, kCount> dropped(const cuda::DropoutRule& rule, const Packed<N, kCount>& values, int row,
                                     int column) {
  constexpr int kBlock = 8;  // columns that share random words
  if (kCount != kBlock && rule.threshold == 0)
    return values;  // otherwise the code below changes nothing, without a
                    // branch
  const uint4 words = rule.words(static_cast<uint32_t>(row), static_cast<uint32_t>(column / kBlock));
  if constexpr (kCount == kBlock && sizeof(N) == 2) {
    auto scaled = Packed<N, kCount>::of([&](int i) { return __fmul_rn(values[i], rule.scale); });
    scaled.words[0] = rule.kept(scaled.words[0], words.x), scaled.words[1] = rule.kept(scaled.words[1], words.y);
    scaled.words[2] = rule.kept(scaled.words[2], words.z), scaled.words[3] = rule.kept(scaled.words[3], words.w);
    return scaled;
  } else {
    const int first = kCount == kBlock ? 0 : column % kBlock;
    return Packed<N, kCount>::of(
        [&](int i) { return rule.keeps(words, first + i) ? __fmul_rn(values[i], rule.scale) : 0.0f; });
  }
}

// dx = residual + rstd * (g - mean(g) - n * mean(g * n)), where n is the normalised row and g = dy * gain. Computed as
// residual - shift + g * rstd - centred * slope. The order and contraction of sums are fixed, so that all variants of a
// kernel give the same bits.
struct RowGradient {
  float rstd, shift, slope;

  __device__ RowGradient(float row_rstd, float mean_g, float mean_gn)
      : rstd(row_rstd), shift(row_rstd * mean_g), slope(row_rstd * row_rstd * mean_gn) {}
  __device__ float operator()(float residual, float g, float centred) const {
    return fmaf(g, rstd, fmaf(-centred, slope, __fsub_rn(residual, shift)));
  }
};

// Calls run<kLanes, kPacks>() with the smallest number of threads that hold a row in two or three packs each, or in
// four or eight packs for a single warp: 896, 1024 and 2048 columns then need no barrier. Returns false if the row is
// too wide. `most`: the largest number of packs per thread, from kLeastMost to kMost.
template <int kLeastMost, int kMost, class Run>
bool with_row_shape(int64_t packs, int most, Run&& run) {
  const auto fits = [&]<int kLanes, int kPacks>() {
    // One warp with four or eight packs is always chosen before 64 or 128 threads with two.
    constexpr bool kNever = kLanes > 32 && kPacks == 2 && kPacks * kLanes <= 32 * kLeastMost;
    if constexpr (kPacks <= kMost && !kNever) {
      if (packs > kPacks * kLanes || kPacks > most) return false;
      run.template operator()<kLanes, kPacks>();
      return true;
    }
    return false;
  };
  const auto fits_either = [&]<int kLanes>() {
    return fits.template operator()<kLanes, 2>() || fits.template operator()<kLanes, 3>();
  };
  return fits_either.template operator()<16>() || fits_either.template operator()<32>() ||
         fits.template operator()<32, 4>() || fits_either.template operator()<64>() ||
         fits.template operator()<32, 8>() || fits_either.template operator()<128>() ||
         fits_either.template operator()<256>() || fits_either.template operator()<512>();
}

template <class T>
bool aligned(const TensorView& view) {
  return !view.defined() || cuda::rows_are_aligned<T>(view);
}

template <class T>
cuda::Native<T>* optional(const TensorView& view) {
  return view.defined() ? cuda::native<T>(view) : nullptr;
}

}  // namespace
}  // namespace gradmill
