// SPDX-License-Identifier: Apache-2.0
// Quantised frozen weights on CUDA. Dequantising is part of every step and memory-bound: 2.5 bytes per element from nf4
// to bf16, 3 from int8. A thread processes eight elements at a time, so that it stores 16 bytes.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/packed.cuh"
#include "cuda/reduce.cuh"
#include "ops/quantise.h"

namespace gradmill {
namespace {

using cuda::kWarpSize;
using cuda::Packed;

constexpr int kThreads = 256, kPack = 8, kUnroll = 4;

template <class N>
struct Quantised {
  N* values;
  int8_t* codes;
  float* scales;
  int64_t size, cols;
};

__device__ uint32_t nearest_nf4(float value, const float* table) {
  uint32_t code = 0;
#pragma unroll
  for (int i = 0; i < 15; ++i) code += value > 0.5f * (table[i] + table[i + 1]) ? 1 : 0;
  return code;
}

struct Nf4Table {
  float values[16];
};
Nf4Table nf4_table() {
  Nf4Table table;
  for (int i = 0; i < 16; ++i) table.values[i] = kNf4Values[i];
  return table;
}

// One block per row. Runs once, when weights are loaded.
template <class N>
__global__ void __launch_bounds__(kThreads) quantise_int8_kernel(const Quantised<N> args) {
  __shared__ float shared[kThreads / kWarpSize];
  const N* row = args.values + blockIdx.x * args.cols;
  float absmax = 0;
  for (int64_t c = threadIdx.x; c < args.cols; c += kThreads) absmax = fmaxf(absmax, fabsf(cuda::to_float(row[c])));
  absmax = cuda::block_reduce(absmax, cuda::Max{}, 0.0f, shared);
  const float factor = absmax > 0 ? 127.0f / absmax : 0.0f;
  if (threadIdx.x == 0) args.scales[blockIdx.x] = absmax / 127.0f;
  for (int64_t c = threadIdx.x; c < args.cols; c += kThreads) {
    args.codes[blockIdx.x * args.cols + c] = static_cast<int8_t>(rintf(cuda::to_float(row[c]) * factor));
  }
}

// One warp per block of 64; one byte per lane.
template <class N>
__global__ void __launch_bounds__(kThreads) quantise_nf4_kernel(const Quantised<N> args, const Nf4Table table) {
  static_assert(kNf4Block == 2 * kWarpSize);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t block = int64_t{blockIdx.x} * (kThreads / kWarpSize) + threadIdx.x / kWarpSize;
  const int64_t first = block * kNf4Block + 2 * lane;
  if (block * kNf4Block >= args.size) return;
  const float high = first < args.size ? cuda::to_float(args.values[first]) : 0.0f;
  const float low = first + 1 < args.size ? cuda::to_float(args.values[first + 1]) : 0.0f;
  const float absmax = cuda::warp_reduce(fmaxf(fabsf(high), fabsf(low)), cuda::Max{});
  const float factor = absmax > 0 ? 1.0f / absmax : 0.0f;
  if (lane == 0) args.scales[block] = absmax;
  if (first >= args.size) return;
  const uint32_t code = nearest_nf4(high * factor, table.values) << 4 | nearest_nf4(low * factor, table.values);
  args.codes[first / 2] = static_cast<int8_t>(code);
}

// Stores elements from `first` on, as far as they exist.
template <class N>
__device__ void store_eight(const float (&values)[kPack], N* to, int64_t first, int64_t size) {
  if (first + kPack <= size) {
    Packed<N, kPack>::of([&](int i) { return values[i]; }).store(to + first);
  } else {
    for (int i = 0; i < kPack; ++i) {
      if (first + i < size) to[first + i] = cuda::from_float<N>(values[i]);
    }
  }
}

template <class N>
__global__ void __launch_bounds__(kThreads) dequantise_nf4_kernel(const Quantised<N> args, const Nf4Table quantiles) {
  __shared__ float table[16];
  if (threadIdx.x < 16) table[threadIdx.x] = quantiles.values[threadIdx.x];
  __syncthreads();
  const int64_t begin = int64_t{blockIdx.x} * (kThreads * kUnroll) + threadIdx.x;
  const int64_t bytes = (args.size + 1) / 2;
  uint32_t codes[kUnroll];
  float scales[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t word = begin + u * kThreads;
    codes[u] = 0, scales[u] = 0;
    if (word * kPack >= args.size) continue;
    scales[u] = args.scales[word * kPack / kNf4Block];
    if (4 * word + 4 <= bytes) {
      codes[u] = reinterpret_cast<const uint32_t*>(args.codes)[word];
    } else {
      for (int64_t i = 4 * word; i < bytes; ++i) codes[u] |= uint32_t{uint8_t(args.codes[i])} << 8 * (i - 4 * word);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t first = (begin + u * kThreads) * kPack;
    if (first >= args.size) continue;
    float values[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      // Element i is in byte i / 2, the high half first.
      values[i] = table[codes[u] >> (8 * (i / 2) + (i % 2 == 0 ? 4 : 0)) & 15] * scales[u];
    }
    store_eight(values, args.values, first, args.size);
  }
}

// Eight columns of a row per thread. If the row length is not a multiple of eight, one element at a time.
template <class N, int kCount>
__global__ void __launch_bounds__(kThreads) dequantise_int8_kernel(const Quantised<N> args) {
  const int64_t begin = int64_t{blockIdx.x} * (kThreads * kUnroll) + threadIdx.x;
  uint2 codes[kUnroll];
  float scales[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t first = (begin + u * kThreads) * kCount;
    codes[u] = {}, scales[u] = 0;
    if (first >= args.size) continue;
    scales[u] = args.scales[first / args.cols];
    if constexpr (kCount == kPack) {
      codes[u] = *reinterpret_cast<const uint2*>(args.codes + first);
    } else {
      codes[u].x = static_cast<uint8_t>(args.codes[first]);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t first = (begin + u * kThreads) * kCount;
    if (first >= args.size) continue;
    const auto value = [&](int i) {
      const uint32_t word = i < 4 ? codes[u].x : codes[u].y;
      return static_cast<float>(static_cast<int8_t>(word >> 8 * (i % 4) & 0xff)) * scales[u];
    };
    Packed<N, kCount>::of(value).store(args.values + first);
  }
}

template <class T>
auto call_of(const QuantiseArgs& args) {
  return Quantised<cuda::Native<T>>{cuda::native<T>(args.values), args.codes.ptr<int8_t>(), args.scales.ptr<float>(),
                                    args.values.numel(), args.values.cols()};
}

unsigned blocks_for(int64_t work, int64_t of_block) { return static_cast<unsigned>((work + of_block - 1) / of_block); }

}  // namespace

template <Device D, class T>
void quantise(ExecContext& ctx, const QuantiseArgs& args) {
  using N = cuda::Native<T>;
  const auto call = call_of<T>(args);
  if (call.size == 0) return;
  const cudaStream_t stream = cuda::stream_of(ctx);
  if (args.format == WeightFormat::int8) {
    cuda::launch({static_cast<unsigned>(args.values.rows()), kThreads, stream}, quantise_int8_kernel<N>, call);
  } else {
    const unsigned blocks = blocks_for(args.scales.numel(), kThreads / kWarpSize);
    cuda::launch({blocks, kThreads, stream}, quantise_nf4_kernel<N>, call, nf4_table());
  }
}

template <Device D, class T>
void dequantise(ExecContext& ctx, const QuantiseArgs& args) {
  using N = cuda::Native<T>;
  const auto call = call_of<T>(args);
  if (call.size == 0) return;
  const cudaStream_t stream = cuda::stream_of(ctx);
  constexpr int64_t kBlockThreads = kThreads * kUnroll;
  if (args.format == WeightFormat::nf4) {
    cuda::launch({blocks_for(call.size, kBlockThreads * kPack), kThreads, stream}, dequantise_nf4_kernel<N>, call,
                 nf4_table());
  } else if (call.cols % kPack == 0) {
    cuda::launch({blocks_for(call.size, kBlockThreads * kPack), kThreads, stream}, dequantise_int8_kernel<N, kPack>,
                 call);
  } else {
    cuda::launch({blocks_for(call.size, kBlockThreads), kThreads, stream}, dequantise_int8_kernel<N, 1>, call);
  }
}

template void quantise<Device::cuda, float>(ExecContext&, const QuantiseArgs&);
template void quantise<Device::cuda, Bf16>(ExecContext&, const QuantiseArgs&);
template void quantise<Device::cuda, Fp16>(ExecContext&, const QuantiseArgs&);
template void dequantise<Device::cuda, float>(ExecContext&, const QuantiseArgs&);
template void dequantise<Device::cuda, Bf16>(ExecContext&, const QuantiseArgs&);
template void dequantise<Device::cuda, Fp16>(ExecContext&, const QuantiseArgs&);

}  // namespace gradmill
