// SPDX-License-Identifier: Apache-2.0
// Backward of MLP activations on CUDA. Memory-bound: 10 bytes per element (gated, bf16) leave time for 70 instructions,
// two of which are exponential or reciprocal. Recomputing the forward's output costs only its writes, and the column
// sums of dx only a second, tiny kernel; separate passes would read x or dx once more.
#include "cuda/engine.h"
#include "cuda/packed.cuh"
#include "cuda/row_tiles.cuh"
#include "ops/activation_math.cuh"
#include "ops/bias_grad_sums.cuh"
#include "ops/partial_sums.h"

namespace gradmill {
namespace {

using cuda::kWarpSize;
using cuda::Packed;

constexpr int kRows = 2;  // per thread

// Rows of `size` elements. For gated kinds, gate and up are side by side in x and dx.
template <class N>
struct GradRows {
  const N* x;
  int64_t x_stride;
  const N* dy;
  int64_t dy_stride;
  N* dx;
  int64_t dx_stride;
  N* y;  // may be null
  int64_t y_stride;
  int64_t size;
};

template <class N, int kPack>
struct Inputs {
  Packed<N, kPack> gate, up, dy;
};

template <bool kGated, class N, int kPack>
__device__ Inputs<N, kPack> load_inputs(const GradRows<N>& args, int64_t row, int64_t column) {
  const N* x = args.x + row * args.x_stride + column;
  Inputs<N, kPack> in;
  in.gate = Packed<N, kPack>::load_streaming(x);
  if constexpr (kGated) in.up = Packed<N, kPack>::load_streaming(x + args.size);
  in.dy = Packed<N, kPack>::load_streaming(args.dy + row * args.dy_stride + column);
  return in;
}

// Writes one pack of a row, and returns the rounded dx of the gate.
template <class Act, bool kGated, bool kAgain, class N, int kPack>
__device__ Packed<N, kPack> store_gradient(const GradRows<N>& args, const Inputs<N, kPack>& in, int64_t row,
                                           int64_t column) {
  N* dx = args.dx + row * args.dx_stride + column;
  float value[kPack];
  const auto dgate = Packed<N, kPack>::of([&](int i) {
    const Point point = Act::point(in.gate[i]);
    value[i] = point.value;
    // Not contracted with the sums.
    return __fmul_rn(kGated ? in.dy[i] * in.up[i] : in.dy[i], point.slope);
  });
  dgate.store(dx);
  if constexpr (kGated) Packed<N, kPack>::of([&](int i) { return in.dy[i] * value[i]; }).store(dx + args.size);
  if constexpr (kAgain) {
    Packed<N, kPack>::of([&](int i) {
      return kGated ? value[i] * in.up[i] : value[i];
    }).store(args.y + row * args.y_stride + column);
  }
  return dgate;
}

// Each thread reads all of its elements before it writes one, and no other thread uses them, so dx may be x.
template <class Act, bool kGated, bool kAgain, class N, int kPack>
__global__ void __launch_bounds__(cuda::kTileThreads)
    activation_backward_kernel(cuda::RowTiles tiles, const GradRows<N> args) {
  const auto place = cuda::TilePlace::of<kRows>(tiles);
  if (place.pack >= tiles.packs) return;
  const int64_t column = place.pack * kPack;
  Inputs<N, kPack> in[kRows];
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (place.has(k)) in[k] = load_inputs<kGated, N, kPack>(args, place.row(k), column);
  }
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (place.has(k)) store_gradient<Act, kGated, kAgain>(args, in[k], place.row(k), column);
  }
}

// Plain activations with the sums of dx over chunks of rows, in the order of bias_grad. Four of these blocks share a
// multiprocessor, so that each of 32 warps has 2 KB in flight.
template <class Act, bool kAgain, class N, int kPack>
__global__ void __launch_bounds__(kWarpSize* kBiasWarps, 4)
    activation_bias_kernel(const GradRows<N> args, int64_t num_rows, int64_t chunk_rows, float* partials) {
  static_assert(kRows == 2);
  ColumnSums<N, kPack> sums;
  const int64_t first_column = int64_t{blockIdx.x} * sums.kColumns, column = first_column + threadIdx.x * kPack;
  const int64_t begin = blockIdx.y * chunk_rows, end = min(begin + chunk_rows, num_rows);
  if (column < args.size) {
#pragma unroll 1
    for (int64_t row = begin + threadIdx.y; row < end; row += kBiasWarps * kRows) {
      const int64_t second_row = row + kBiasWarps;
      Inputs<N, kPack> first = load_inputs<false, N, kPack>(args, row, column), second;
      if (second_row < end) second = load_inputs<false, N, kPack>(args, second_row, column);
      Packed<N, kPack> dx[kRows] = {};
      dx[0] = store_gradient<Act, false, kAgain>(args, first, row, column);
      if (second_row < end) dx[1] = store_gradient<Act, false, kAgain>(args, second, second_row, column);
      sums.add(dx[0], dx[1]);
    }
  }
  sums.write(partials + blockIdx.y * args.size + first_column, args.size - first_column);
}

template <class Act, bool kGated, int kPack, class N>
void run_backward(ExecContext& ctx, const GradRows<N>& rows, int64_t num_rows) {
  cuda::launch_tiles<kRows>(cuda::stream_of(ctx), num_rows, rows.size / kPack,
                            rows.y ? activation_backward_kernel<Act, kGated, true, N, kPack>
                                   : activation_backward_kernel<Act, kGated, false, N, kPack>,
                            rows);
}

template <class Act, int kPack, class N>
void run_with_bias(ExecContext& ctx, const GradRows<N>& rows, int64_t num_rows, const ActivationGradArgs& args,
                   const TensorView& partials) {
  const int64_t count = partials.shape[0], chunk_rows = (num_rows + count - 1) / std::max<int64_t>(count, 1);
  float* sums = partials.ptr<float>();
  const cudaStream_t stream = cuda::stream_of(ctx);
  if (count > 0) {
    const dim3 grid = column_sum_grid<kPack>(rows.size, count);
    cuda::launch(cuda::LaunchConfig{grid, dim3(kWarpSize, kBiasWarps), stream},
                 rows.y ? activation_bias_kernel<Act, true, N, kPack> : activation_bias_kernel<Act, false, N, kPack>,
                 rows, num_rows, chunk_rows, sums);
  }
  const TensorView of_chunks(sums, DType::fp32, {count, rows.size});
  add_partial_sums<Device::cuda>(ctx, {{PartialSum{of_chunks, args.dbias, args.bias_beta}}});
}

}  // namespace

template <Device D, class T>
void activation_backward(ExecContext& ctx, const ActivationGradArgs& args, const TensorView& partials) {
  using N = cuda::Native<T>;
  constexpr int kPack = 16 / sizeof(N);
  const TensorView &x = args.x, &dy = args.dy, &dx = args.dx.plain, &y = args.y.plain;
  const GradRows<N> rows{.x = cuda::native<T>(x),
                         .x_stride = x.row_stride,
                         .dy = cuda::native<T>(dy),
                         .dy_stride = dy.row_stride,
                         .dx = cuda::native<T>(dx),
                         .dx_stride = dx.row_stride,
                         .y = y.defined() ? cuda::native<T>(y) : nullptr,
                         .y_stride = y.row_stride,
                         .size = dy.cols()};
  const bool aligned = cuda::rows_are_aligned<T>(x) && cuda::rows_are_aligned<T>(dy) && cuda::rows_are_aligned<T>(dx) &&
                       (!y.defined() || cuda::rows_are_aligned<T>(y));
  with_activation<N>(args.kind, [&]<class Act, bool kGated>() {
    const auto run = [&]<int kSize>() {
      if constexpr (!kGated) {
        if (partials.defined()) return run_with_bias<Act, kSize>(ctx, rows, dy.rows(), args, partials);
      }
      run_backward<Act, kGated, kSize>(ctx, rows, dy.rows());
    };
    aligned ? run.template operator()<kPack>() : run.template operator()<1>();
  });
}

template void activation_backward<Device::cuda, float>(ExecContext&, const ActivationGradArgs&, const TensorView&);
template void activation_backward<Device::cuda, Bf16>(ExecContext&, const ActivationGradArgs&, const TensorView&);
template void activation_backward<Device::cuda, Fp16>(ExecContext&, const ActivationGradArgs&, const TensorView&);

}  // namespace gradmill
