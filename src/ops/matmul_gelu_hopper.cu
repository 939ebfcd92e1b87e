// SPDX-License-Identifier: Apache-2.0
// The two products of an MLP around its GELU, on Hopper and for a depth of at most 384. Such products are too shallow
// for the usual tiles: bringing operands and storing results takes as long as multiplying. Here a block keeps its share
// of the weight (192 columns of the result) in shared memory and brings 64 rows of activations at a time; a warpgroup
// finishes its tile while another one multiplies. At 16,384 rows of 384 by 1536 the products take 20 us of the matrix
// units, the forward's results 24 us of memory.
// Columns of a share are multiplied in another order, such that a thread of an accumulator has eight neighbouring
// columns of each 32: it loads and stores 16 bytes of a row.
#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/tensor_map.h"
#include "ops/matmul_gelu_hopper.cuh"
#include "ops/matmul_gelu_hopper.h"

namespace gradmill {
namespace {

using namespace hopper_mlp;

template <class N, int kShare, template <class, int> class Pass>
__global__ void __launch_bounds__(kThreads, 1)
    matmul_gelu_kernel(const __grid_constant__ CUtensorMap activations, const Work<N> work) {
#ifdef GRADMILL_HOPPER_CODE
  using Finisher = Pass<N, kShare>;
  extern __shared__ uint4 memory[];
  const Layout shared(memory, uint32_t(work.depth * kShare) * 2);
  const Tiles tiles(work.rows, work.shares);
  const int first_column = int(blockIdx.x) % work.shares * kShare, blocks = work.depth / kBlock;
  const int warpgroup = __shfl_sync(~0u, int(threadIdx.x) / kWarpgroup, 0);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      cuda::barrier_init(shared.full(stage), 1);
      cuda::barrier_init(shared.empty(stage), kWarpgroup / 32);
    }
    cuda::barrier_init_done();
  }
  if constexpr (Finisher::kRows) {
    bring_columns<kShare>(work, shared.base, first_column);
  } else {
    bring_rows<kShare>(work, shared.base, first_column);
    cuda::wait_for_copies();
  }
  cuda::show_to_products();
  __syncthreads();
  if (warpgroup == kConsumers) {
    cuda::give_registers<24>();
    if (threadIdx.x % kWarpgroup == 0) bring_activations(shared, activations, tiles, blocks);
  } else {
    cuda::take_registers<160>();
    const Order order(warpgroup);
    Finisher finisher{work};
    int count = warpgroup * blocks;
    for (int tile = tiles.first + warpgroup * tiles.step; tile < tiles.end; tile += kConsumers * tiles.step) {
      const Place place(tile, first_column);
      float c[kShare / 8][4];
      finisher.prepare(place, c);
      multiply_tile<N, kShare, Finisher::kRows>(shared, order, count, blocks, c);
      finisher.finish(place, c);
      count += kConsumers * blocks;
    }
  }
#else
  __trap();
#endif
}

// The widest share that divides the columns, and run<kShare>() with it; 0: there is none.
int share_of(int64_t columns) { return columns % 192 == 0 ? 192 : columns % 128 == 0 ? 128 : 0; }
template <class Run>
void with_share(int64_t columns, Run&& run) {
  if (share_of(columns) == 192) {
    run.template operator()<192>();
  } else {
    run.template operator()<128>();
  }
}

template <class T, int kShare, template <class, int> class Pass>
void start(ExecContext& ctx, const TensorView& a, Work<cuda::Native<T>> work, int64_t columns) {
  work.shares = int(columns / kShare);
  const int workers = std::max(ctx.cuda->num_units() / work.shares, 1);
  const size_t bytes = Layout::bytes(size_t(work.depth) * kShare * 2);
  cuda::launch({dim3(unsigned(workers * work.shares)), kThreads, cuda::stream_of(ctx), bytes},
               matmul_gelu_kernel<cuda::Native<T>, kShare, Pass>, cuda::map_tiles(a, kTileRows), work);
}

template <class... Views>
bool can_multiply(const ExecContext& ctx, const TensorView& a, int64_t columns, const Views&... views) {
#ifndef GRADMILL_WITH_WGMMA
  return false;
#endif
  constexpr int64_t kFewestRows = 2048;  // below, bringing the weight is most of the work
  const auto aligned = [](const TensorView& view) { return !view.defined() || cuda::rows_are_aligned<Bf16>(view); };
  const bool small = a.dtype == DType::bf16 || a.dtype == DType::fp16;
  return ctx.cuda != nullptr && ctx.cuda->compute_capability() == 90 && small && a.cols() % kBlock == 0 &&
         a.cols() <= kMostDepth && a.rows() >= kFewestRows && share_of(columns) > 0 && aligned(a) &&
         (aligned(views) && ...);
}

}  // namespace

bool hopper_supports(const ExecContext& ctx, const MatmulGeluArgs& args) {
  return can_multiply(ctx, args.a, args.x.cols(), args.b, args.x, args.y, args.bias);
}

bool hopper_supports(const ExecContext& ctx, const MatmulGeluGradArgs& args) {
  return can_multiply(ctx, args.a, args.x.cols(), args.b, args.x, args.dx, args.y);
}

template <class T>
void hopper_matmul_gelu(ExecContext& ctx, const MatmulGeluArgs& args) {
  const Work<cuda::Native<T>> work{.weight = cuda::native<T>(args.b),
                                   .weight_stride = args.b.row_stride,
                                   .bias = args.bias.defined() ? cuda::native<T>(args.bias) : nullptr,
                                   .x = cuda::native<T>(args.x),
                                   .x_stride = args.x.row_stride,
                                   .y = cuda::native<T>(args.y),
                                   .y_stride = args.y.row_stride,
                                   .rows = int(args.a.rows()),
                                   .depth = int(args.a.cols())};
  with_share(args.x.cols(), [&]<int kShare>() { start<T, kShare, Forward>(ctx, args.a, work, args.x.cols()); });
}

template <class T>
void hopper_matmul_gelu_backward(ExecContext& ctx, const MatmulGeluGradArgs& args) {
  const Work<cuda::Native<T>> work{.weight = cuda::native<T>(args.b),
                                   .weight_stride = args.b.row_stride,
                                   .x = cuda::native<T>(args.x),
                                   .x_stride = args.x.row_stride,
                                   .y = args.y.defined() ? cuda::native<T>(args.y) : nullptr,
                                   .y_stride = args.y.row_stride,
                                   .dx = cuda::native<T>(args.dx),
                                   .dx_stride = args.dx.row_stride,
                                   .rows = int(args.a.rows()),
                                   .depth = int(args.a.cols())};
  with_share(args.x.cols(), [&]<int kShare>() {
    if (work.y) {
      start<T, kShare, BackwardAgain>(ctx, args.a, work, args.x.cols());
    } else {
      start<T, kShare, Backward>(ctx, args.a, work, args.x.cols());
    }
  });
}

template void hopper_matmul_gelu<Bf16>(ExecContext&, const MatmulGeluArgs&);
template void hopper_matmul_gelu<Fp16>(ExecContext&, const MatmulGeluArgs&);
template void hopper_matmul_gelu_backward<Bf16>(ExecContext&, const MatmulGeluGradArgs&);
template void hopper_matmul_gelu_backward<Fp16>(ExecContext&, const MatmulGeluGradArgs&);

}  // namespace gradmill
