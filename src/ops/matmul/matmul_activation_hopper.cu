// SPDX-License-Identifier: Apache-2.0
// The two GEMMs of an MLP around its activation, on Hopper. Two warpgroups multiply 128 rows by 256 columns, leave the
// rounded result in shared memory and continue with the next tile, while three warps apply the activation. So the
// result of a GEMM before an activation is not read back from memory, and the result of a GEMM after one (in the
// backward) is not written at all. Blocks of a cluster have the same columns, and each loads half of the right operand
// for both. Otherwise the L2 cache would have to deliver 48 bytes per cycle to every multiprocessor.
#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/tensor_map.h"
#include "ops/matmul/matmul_activation_finish.cuh"
#include "ops/matmul/matmul_activation_hopper.cuh"
#include "ops/matmul/matmul_activation_hopper.h"

namespace gradmill {
namespace {

using namespace hopper_activation;

// The main loop of a multiplying warp.
template <class N, class Pass>
__device__ void multiply_tiles(const Layout<Pass>& shared, const Work<N>& work, const Tiles& tiles, int rank,
                               int warp) {
  const int group = warp / 4;
  const uint32_t buffer = shared.tile_buffer(group);
  cuda::RingPlace<Pass::kStages> place;
  uint32_t parity = 0;  // of the phases of the tile buffer
  tiles.each([&](const Tile& tile, int) {
    const int buffer_row = warp % 4 * kWarpRows, column = tile.column * Pass::kColumns;
    const int row = tile.row * kClusterRows + rank * kTileRows + group * kGroupRows + buffer_row;
    Accumulator c;
    BatchOfX<N> x;
    multiply_tile<N, Pass>(shared, group, work.depth / Pass::kBlock, place, c, [&] {
      if constexpr (Pass::kShares) Pass::ask_for_x(work, row, column, x);
    });
    if (!Pass::kRows && work.bias) add_bias<Pass>(work, tile, c);
    cuda::barrier_wait(shared.buffer_empty(group), parity ^ 1);  // at once in the first round
    store_rounded<N>(buffer, c);
    if (!Pass::kRows) cuda::show_to_products();  // the copy engine brings x to memory
    cuda::barrier_arrive(shared.buffer_full(group));
    parity ^= 1;
    if constexpr (Pass::kShares) {
      if (work.shared) Pass::finish_own(work, row, column, buffer, buffer_row, x);
    }
  });
}

template <class N, class Pass>
__global__ void __launch_bounds__(kThreads, 1)
    matmul_activation_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Work<N> work, Tiles tiles) {
#ifdef GRADMILL_HOPPER_CODE
  extern __shared__ uint4 memory[];
  const Layout<Pass> shared(memory);
  const int rank = cuda::cluster_rank(), warp = __shfl_sync(~0u, int(threadIdx.x) / 32, 0), warpgroup = warp / 4;
  if (threadIdx.x == 0) shared.init_barriers();
  __syncthreads();
  cuda::cluster_arrive_started();
  cuda::cluster_wait();
  if (warpgroup < kGroups) {
    if constexpr (Pass::kShares) cuda::take_registers<kMultiplierRegisters>();
    multiply_tiles<N, Pass>(shared, work, tiles, rank, warp);
  } else {
    if constexpr (Pass::kShares) cuda::give_registers<kFinisherRegisters>();
    if (warp % 4 < kFinishers) {
      finish_tiles<N, Pass>(shared, work, maps, tiles, rank, warp % 4);
    } else if (cuda::elect_one()) {
      bring<Pass>(shared, maps, tiles, work.depth, work.size, rank);
    }
  }
#else
  __trap();
#endif
}

template <class T, class Pass>
void start(ExecContext& ctx, const Maps& maps, const Work<cuda::Native<T>>& work) {
  const Tiles tiles{(work.rows + kClusterRows - 1) / kClusterRows, work.size / Pass::kColumns};
  const int clusters = std::min(tiles.rows * tiles.columns, ctx.cuda->num_units() / kCluster);
  cuda::LaunchConfig config(dim3(unsigned(clusters * kCluster)), dim3(kThreads), cuda::stream_of(ctx),
                            Layout<Pass>::kBytes);
  config.cluster = kCluster;
  cuda::launch(config, matmul_activation_kernel<cuda::Native<T>, Pass>, maps, work, tiles);
}

template <class... Views>
bool can_multiply(const ExecContext& ctx, const TensorView& a, int64_t hidden, const Views&... views) {
#ifndef GRADMILL_WITH_WGMMA
  return false;
#endif
  constexpr int64_t kFewestRows = 2048;  // with fewer, multiprocessors would be idle
  constexpr int64_t kLeastDepth = 512;   // with less, finishing takes much longer than multiplying
  const auto aligned = [](const TensorView& view) { return !view.defined() || cuda::rows_are_aligned<Bf16>(view); };
  const bool small = a.dtype == DType::bf16 || a.dtype == DType::fp16;
  return ctx.cuda != nullptr && ctx.cuda->compute_capability() == 90 && small && a.cols() % kForwardBlock == 0 &&
         a.cols() >= kLeastDepth && a.rows() >= kFewestRows && hidden % kTileColumns == 0 && aligned(a) &&
         (aligned(views) && ...);
}

}  // namespace

bool wide_hopper_supports(const ExecContext& ctx, const MatmulActivationArgs& args) {
  constexpr int64_t kMostDepth = 4096;  // with more, the library's faster GEMM gains more than the fusion saves
  const TensorView &a = args.product.a.plain, &b = args.product.b.plain, &bias = args.product.bias, &y = args.y.plain;
  return a.cols() <= kMostDepth && can_multiply(ctx, a, y.cols(), b, bias, args.x, y);
}

bool wide_hopper_supports(const ExecContext& ctx, const MatmulActivationGradArgs& args) {
  const TensorView &a = args.product.a.plain, &b = args.product.b.plain, &dx = args.dx.plain, &y = args.y.plain;
  return can_multiply(ctx, a, b.cols(), b, args.x, dx, y);
}

template <class T>
void wide_hopper_matmul_activation(ExecContext& ctx, const MatmulActivationArgs& args) {
  using N = cuda::Native<T>;
  const TensorView &a = args.product.a.plain, &b = args.product.b.plain, &bias = args.product.bias, &y = args.y.plain;
  const Maps maps{.left = cuda::map_tiles(a, kTileRows, kForwardBlock),
                  .right = cuda::map_tiles(b, kTileColumns / kCluster, kForwardBlock),
                  .x = cuda::map_tiles(args.x, kGroupRows)};
  const Work<N> work{.bias = bias.defined() ? cuda::native<T>(bias) : nullptr,
                     .y = cuda::native<T>(y),
                     .y_stride = y.row_stride,
                     .rows = int(a.rows()),
                     .depth = int(a.cols()),
                     .size = int(y.cols())};
  with_activation<N>(args.kind, [&]<class Act, bool kGated>() { start<T, Forward<N, Act, kGated>>(ctx, maps, work); });
}

template <class T>
void wide_hopper_matmul_activation_backward(ExecContext& ctx, const MatmulActivationGradArgs& args) {
  using N = cuda::Native<T>;
  const TensorView &a = args.product.a.plain, &b = args.product.b.plain, &dx = args.dx.plain, &y = args.y.plain;
  const Maps maps{.left = cuda::map_tiles(a, kTileRows, kBackwardBlock),
                  .right = cuda::map_tiles(b, kBackwardBlock),
                  .x = cuda::map_tiles(args.x, kBatchRows, kTileColumns)};
  const Work<N> work{.x = cuda::native<T>(args.x),
                     .dx = cuda::native<T>(dx),
                     .y = y.defined() ? cuda::native<T>(y) : nullptr,
                     .x_stride = args.x.row_stride,
                     .dx_stride = dx.row_stride,
                     .y_stride = y.row_stride,
                     .rows = int(a.rows()),
                     .depth = int(a.cols()),
                     .size = int(b.cols()),
                     .shared = a.cols() <= kMostSharedDepth};
  with_activation<N>(args.kind, [&]<class Act, bool kGated>() {
    if (work.y) {
      start<T, Gradient<N, Act, kGated, true>>(ctx, maps, work);
    } else {
      start<T, Gradient<N, Act, kGated, false>>(ctx, maps, work);
    }
  });
}

template void wide_hopper_matmul_activation<Bf16>(ExecContext&, const MatmulActivationArgs&);
template void wide_hopper_matmul_activation<Fp16>(ExecContext&, const MatmulActivationArgs&);
template void wide_hopper_matmul_activation_backward<Bf16>(ExecContext&, const MatmulActivationGradArgs&);
template void wide_hopper_matmul_activation_backward<Fp16>(ExecContext&, const MatmulActivationGradArgs&);

}  // namespace gradmill
