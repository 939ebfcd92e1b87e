// SPDX-License-Identifier: Apache-2.0
// GEMMs followed by a norm. A block multiplies 128 rows with the whole weight, at most 384 columns: two warpgroups have
// 64 rows each in 192 registers per thread. So the block has whole rows and can apply the norm immediately; the product
// is neither written to memory nor read back. Blocks of a cluster need the same weight and each loads a part of it.
// Otherwise the L2 cache would have to deliver 43 bytes per cycle to every multiprocessor. 16,384 rows of depth 1536
// take 21 us of the matrix units and 5 us of instructions for the norm, during which nothing is multiplied.
#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/tensor_map.h"
#include "ops/norm/matmul_norm_hopper.cuh"
#include "ops/norm/norm_rows.cuh"

namespace gradmill {
namespace {

using namespace hopper_norm;

template <class N>
struct Work {
  const N* product_bias;   // (C), or null
  const N *weight, *bias;  // (C), of the norm; bias may be null
  N *sum, *y;
  int64_t sum_stride, y_stride;
  float *mean, *rstd;
  const StepScalars* scalars;  // null: no dropout
  uint32_t dropout_site;
  float eps, weight_offset;
  int rows, depth;
  bool centered;
};

// Initialises the accumulators with the bias of the GEMM.
template <class N, int kColumns>
__device__ void begin_with_bias(const N* bias, Accumulator<kColumns>& c) {
#pragma unroll
  for (int i = 0; i < kColumns / 8; ++i) {
    float2 pair = {};
    if (bias) pair = cuda::unpack_pair<N>(*reinterpret_cast<const uint32_t*>(bias + i * 8 + threadIdx.x % 4 * 2));
    auto& tile = c[i / (kColumns / 16)][i % (kColumns / 16)];
    tile[0] = tile[2] = pair.x;
    tile[1] = tile[3] = pair.y;
  }
}

// Sums over the columns of a row: add(pack, i, sum) returns the sum with one more element. Each pack has its own sum,
// because a chain of 48 additions would take longer than everything else.
template <int kPacks, class Add>
__device__ float row_total(Add&& add) {
  float sums[kPacks] = {}, total = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) sums[p] = add(p, i, sums[p]);
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) total += sums[p];
  return cuda::warp_reduce<kLanes>(total, Sum{});
}

template <class N, int kPacks>
__device__ RowStats stats_of(const Packed<N> (&values)[kPacks], float eps, bool centered) {
  constexpr int kColumns = kPacks * 64;
  float mean = 0;
  if (centered) {
    mean = row_total<kPacks>([&](int p, int i, float sum) { return sum + values[p][i]; }) * (1.0f / kColumns);
  }
  const float squares = row_total<kPacks>([&](int p, int i, float sum) {
    const float centred = values[p][i] - mean;
    return fmaf(centred, centred, sum);
  });
  return {mean, rstd_of(squares, kColumns, eps)};
}

// Applies the norm to a warp's rows of a tile, from `first` on. Eight lanes have eight columns of each panel of a row.
template <bool kDrops, class N, int kColumns>
__device__ void norm_rows(const Work<N>& work, const Panels<N, kColumns>& x, const Panels<N, kColumns>& delta, int tile,
                          int first) {
  constexpr int kPacks = kColumns / 64;
  const int column = int(threadIdx.x) % kLanes * 8;
  cuda::DropoutRule rule;
  if constexpr (kDrops) rule = cuda::DropoutRule(*work.scalars, work.dropout_site);
  float gain[kPacks][8];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const auto weight = Packed<N>::load(work.weight + column + p * 64);
#pragma unroll
    for (int i = 0; i < 8; ++i) gain[p][i] = gain_of(weight[i], work.weight_offset);
  }
#pragma unroll 1
  for (int within = 0; within < kWarpRows; within += kRowsAtOnce) {
    const int own = first + within + int(threadIdx.x) % 32 / kLanes, row = tile * kTileRows + own;
    const bool there = row < work.rows;
    Packed<N> values[kPacks];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      values[p] = delta.load(own, p);
      if constexpr (kDrops) values[p] = dropped(rule, values[p], row, column + p * 64);
      values[p] = x.load(own, p) + values[p];
      values[p].store_if(there, work.sum + row * work.sum_stride + column + p * 64);
    }
    const RowStats stats = stats_of(values, work.eps, work.centered);
    if (there && column == 0) {
      if (work.centered) work.mean[row] = stats.mean;
      work.rstd[row] = stats.rstd;
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int at = column + p * 64;
      const auto gain_at = [&](int i) { return gain[p][i]; };
      normalised(values[p], stats, gain_at, work.bias ? work.bias + at : nullptr)
          .store_if(there, work.y + row * work.y_stride + at);
    }
  }
}

template <class N, int kColumns>
__global__ void __launch_bounds__(kThreads, 1)
    matmul_norm_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Work<N> work) {
#ifdef GRADMILL_HOPPER_CODE
  extern __shared__ uint4 memory[];
  const Layout<kColumns> shared(memory);
  const Tiles tiles(work.rows);
  const int blocks = work.depth / kBlock, rank = cuda::cluster_rank();
  const int warp = __shfl_sync(~0u, int(threadIdx.x) / 32, 0), warpgroup = warp / 4, first = warp * kWarpRows;
  if (threadIdx.x == 0) shared.init_barriers();
  __syncthreads();
  cuda::cluster_arrive_started();
  cuda::cluster_wait();
  if (warpgroup == kConsumers) {
    cuda::give_registers<40>();
    if (warp % 4 == 0 && cuda::elect_one()) bring<kColumns>(shared, maps, tiles, blocks, rank);
  } else {
    cuda::take_registers<232>();
    int count = 0, done = 0;
#pragma unroll 1
    for (int tile = tiles.first; tile < tiles.end; tile += tiles.step, ++done) {
      Accumulator<kColumns> c;
      begin_with_bias<N, kColumns>(work.product_bias, c);
      multiply<N, kColumns>(shared, warpgroup, count, blocks, c);
      count += blocks;
      sync_consumers();  // no thread reads the stages any more
      const Panels<N, kColumns> x(shared, count, 0), delta(shared, count, kColumns / 64);
      delta.store(first, c);
      cuda::barrier_wait(shared.x_here(), uint32_t(done) % 2);
      if (work.scalars) {
        norm_rows<true>(work, x, delta, tile, first);
      } else {
        norm_rows<false>(work, x, delta, tile, first);
      }
      cuda::show_to_products();
      __syncwarp();
      cuda::barrier_arrive_everywhere<kCluster>(shared.tile_done());
    }
  }
#else
  __trap();
#endif
}

}  // namespace

bool hopper_supports(const ExecContext& ctx, const NormArgs& args) {
#ifndef GRADMILL_WITH_WGMMA
  return false;
#endif
  constexpr int64_t kFewestRows = 8192;  // half of an H100's multiprocessors
  constexpr int64_t kLeastDepth = 256;   // at least as many blocks as stages
  const Product& product = args.product;
  const TensorView &a = product.a.plain, &c = product.c;
  const auto fits = [](auto&... views) { return ((!views.defined() || cuda::rows_are_aligned<Bf16>(views)) && ...); };
  const bool small = a.dtype == DType::bf16 || a.dtype == DType::fp16;
  return ctx.cuda != nullptr && ctx.cuda->compute_capability() == 90 && small && (c.cols() == 384 || c.cols() == 256) &&
         !product.transpose_a && product.transpose_b && product.beta == 0 && product.batch.count == 1 &&
         a.cols() % kBlock == 0 && a.cols() >= kLeastDepth && a.rows() >= kFewestRows &&
         fits(a, product.b.plain, product.bias, args.x, args.weight, args.bias, args.sum, args.y.plain);
}

template <class T>
void hopper_matmul_norm(ExecContext& ctx, const NormArgs& args) {
  const Product& product = args.product;
  const Work<cuda::Native<T>> work{.product_bias = optional<T>(product.bias),
                                   .weight = cuda::native<T>(args.weight),
                                   .bias = optional<T>(args.bias),
                                   .sum = cuda::native<T>(args.sum),
                                   .y = cuda::native<T>(args.y.plain),
                                   .sum_stride = args.sum.row_stride,
                                   .y_stride = args.y.plain.row_stride,
                                   .mean = optional<float>(args.mean),
                                   .rstd = args.rstd.ptr<float>(),
                                   .scalars = args.dropout ? ctx.scalars : nullptr,
                                   .dropout_site = args.dropout_site,
                                   .eps = args.eps,
                                   .weight_offset = args.weight_offset,
                                   .rows = int(args.x.rows()),
                                   .depth = int(product.a.plain.cols()),
                                   .centered = args.kind == NormKind::layer};
  const int tiles = (work.rows + kTileRows - 1) / kTileRows;
  const int blocks = std::min(tiles + kCluster - 1, ctx.cuda->num_units()) / kCluster * kCluster;
  const auto run = [&]<int kColumns>() {
    const Maps maps{cuda::map_tiles(product.a.plain, kTileRows), cuda::map_tiles(product.b.plain, kColumns / kCluster),
                    cuda::map_tiles(args.x, kTileRows)};
    cuda::LaunchConfig config(dim3(unsigned(blocks)), dim3(kThreads), cuda::stream_of(ctx), Layout<kColumns>::kBytes);
    config.cluster = kCluster;
    cuda::launch(config, matmul_norm_kernel<cuda::Native<T>, kColumns>, maps, work);
  };
  if (product.c.cols() == 384) {
    run.template operator()<384>();
  } else {
    run.template operator()<256>();
  }
}

template void hopper_matmul_norm<Bf16>(ExecContext&, const NormArgs&);
template void hopper_matmul_norm<Fp16>(ExecContext&, const NormArgs&);

}  // namespace gradmill
