// SPDX-License-Identifier: Apache-2.0
// The two GEMMs of an MLP around its GELU, on Hopper, for a depth of at most 384. Such GEMMs are too shallow for the
// usual tiles: loading operands and storing results takes as long as multiplying. Here a block keeps its share of the
// weight (192 columns of the result) in shared memory and loads 64 rows of activations at a time. One warpgroup
// finishes its tile while another one multiplies. At 16,384 rows of 384 by 1536, the products take 20 us of the matrix
// units, and the forward's results 24 us of memory. Results are stored through shared memory and the copy engine, whole
// lines at a time, so that no thread waits for a store.
#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/tensor_map.h"
#include "ops/matmul/matmul_gelu_hopper.cuh"
#include "ops/matmul/matmul_gelu_hopper.h"

namespace gradmill {
namespace {

using namespace hopper_mlp;

template <class N, int kShare, template <class, int> class Pass>
__global__ void __launch_bounds__(kThreads, 1)
    matmul_gelu_kernel(const __grid_constant__ Maps maps, const Work<N> work) {
#ifdef GRADMILL_HOPPER_CODE
  using Finisher = Pass<N, kShare>;
  extern __shared__ uint4 memory[];
  const int first_column = int(blockIdx.x) % work.shares * kShare, blocks = work.depth / kBlock;
  const Layout<kShare, Finisher::kBuffers> shared(memory);
  const Tiles tiles(work.rows, work.shares);
  const int warp = __shfl_sync(~0u, int(threadIdx.x) / 32, 0), warpgroup = warp / 4;
  if (threadIdx.x == 0) shared.init_barriers();
  __syncthreads();
  if (warpgroup == kConsumers) {
    cuda::give_registers<24>();
    if (warp % 4 == 0 && cuda::elect_one()) bring_activations(shared, maps.activations, tiles, blocks);
    if (warp % 4 == 1 && cuda::elect_one()) {
      bring_weight<Finisher::kRows>(shared, maps.weight, first_column, blocks);
    }
  } else {
    cuda::take_registers<160>();
    const Order order(warpgroup);
    const StripBuffers buffers(shared.strip(warp), shared.strip_here(warp));
    Finisher finisher{work, maps, buffers};
    int round = 0;
    for (int tile = tiles.first + warpgroup * tiles.step; tile < tiles.end; tile += kConsumers * tiles.step, ++round) {
      const Place place{tile * kTileRows + warp % 4 * kStripRows, first_column};
      float c[kShare / 8][4];
      finisher.prepare(place, round);
      const int count = (kConsumers * round + warpgroup) * blocks;
      multiply_tile<N, Finisher::kRows>(shared, order, count, blocks, round == 0, c);
      finisher.finish(place, round, c);
    }
    buffers.wait<0>();  // shared memory must outlive the stores that read it
  }
#else
  __trap();
#endif
}

// Calls run<kShare>() with the widest share that divides the columns; 0 if there is none.
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
void start(ExecContext& ctx, const Maps& maps, Work<cuda::Native<T>> work, int64_t columns) {
  using N = cuda::Native<T>;
  work.shares = int(columns / kShare);
  const int workers = std::max(ctx.cuda->num_units() / work.shares, 1);
  const size_t bytes = Layout<kShare, Pass<N, kShare>::kBuffers>::bytes(work.depth / kBlock);
  cuda::launch({dim3(unsigned(workers * work.shares)), kThreads, cuda::stream_of(ctx), bytes},
               matmul_gelu_kernel<N, kShare, Pass>, maps, work);
}

template <class... Views>
bool can_multiply(const ExecContext& ctx, const TensorView& a, int64_t columns, const Views&... views) {
#ifndef GRADMILL_WITH_WGMMA
  return false;
#endif
  constexpr int64_t kFewestRows = 2048;  // with fewer rows, loading the weight is most of the work
  const auto aligned = [](const TensorView& view) { return !view.defined() || cuda::rows_are_aligned<Bf16>(view); };
  const bool small = a.dtype == DType::bf16 || a.dtype == DType::fp16;
  return ctx.cuda != nullptr && ctx.cuda->compute_capability() == 90 && small && a.cols() % kBlock == 0 &&
         a.cols() <= kMostDepth && a.rows() >= kFewestRows && share_of(columns) > 0 && aligned(a) &&
         (aligned(views) && ...);
}

}  // namespace

bool hopper_supports(const ExecContext& ctx, const MatmulActivationArgs& args) {
  const TensorView &a = args.product.a.plain, &b = args.product.b.plain, &bias = args.product.bias, &y = args.y.plain;
  return args.kind == Activation::gelu_tanh && can_multiply(ctx, a, args.x.cols(), b, args.x, y, bias);
}

bool hopper_supports(const ExecContext& ctx, const MatmulActivationGradArgs& args) {
  const TensorView &a = args.product.a.plain, &b = args.product.b.plain, &dx = args.dx.plain, &y = args.y.plain;
  return args.kind == Activation::gelu_tanh && can_multiply(ctx, a, args.x.cols(), b, args.x, dx, y);
}

template <class T>
void hopper_matmul_gelu(ExecContext& ctx, const MatmulActivationArgs& args) {
  const TensorView &a = args.product.a.plain, &b = args.product.b.plain, &bias = args.product.bias, &y = args.y.plain;
  const Work<cuda::Native<T>> work{
      .bias = bias.defined() ? cuda::native<T>(bias) : nullptr, .rows = int(a.rows()), .depth = int(a.cols())};
  with_share(args.x.cols(), [&]<int kShare>() {
    const Maps maps{.activations = cuda::map_tiles(a, kTileRows),
                    .weight = cuda::map_tiles(b, kShare),
                    .x = cuda::map_tiles(args.x, kStripRows),
                    .y = cuda::map_tiles(y, kStripRows)};
    start<T, kShare, Forward>(ctx, maps, work, args.x.cols());
  });
}

template <class T>
void hopper_matmul_gelu_backward(ExecContext& ctx, const MatmulActivationGradArgs& args) {
  const TensorView &a = args.product.a.plain, &b = args.product.b.plain, &dx = args.dx.plain, &y = args.y.plain;
  const Work<cuda::Native<T>> work{.rows = int(a.rows()), .depth = int(a.cols())};
  Maps maps{.activations = cuda::map_tiles(a, kTileRows),
            .weight = cuda::map_tiles(b, kBlock),
            .x = cuda::map_tiles(args.x, kStripRows),
            .dx = cuda::map_tiles(dx, kStripRows)};
  if (y.defined()) maps.y = cuda::map_tiles(y, kStripRows);
  with_share(args.x.cols(), [&]<int kShare>() {
    if (y.defined()) {
      start<T, kShare, BackwardAgain>(ctx, maps, work, args.x.cols());
    } else {
      start<T, kShare, Backward>(ctx, maps, work, args.x.cols());
    }
  });
}

template void hopper_matmul_gelu<Bf16>(ExecContext&, const MatmulActivationArgs&);
template void hopper_matmul_gelu<Fp16>(ExecContext&, const MatmulActivationArgs&);
template void hopper_matmul_gelu_backward<Bf16>(ExecContext&, const MatmulActivationGradArgs&);
template void hopper_matmul_gelu_backward<Fp16>(ExecContext&, const MatmulActivationGradArgs&);

}  // namespace gradmill
