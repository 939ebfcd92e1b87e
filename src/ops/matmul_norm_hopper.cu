// SPDX-License-Identifier: Apache-2.0
// Products with a norm behind them. A block multiplies 128 rows with all of the weight, 384 columns at most: two
// warpgroups have 64 rows each in 192 registers a thread. So it has whole rows, and what the norm does with them
// follows at once: 128 rows of 384 columns neither go to memory nor come back. Both blocks of a cluster need the same
// weight and bring one half of it each: without that the L2 cache would have to give 43 bytes a cycle to every
// multiprocessor.
// 16,384 rows of depth 1536 take 21 us of the matrix units, the norm 5 us of instructions, while nothing multiplies.
#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/tensor_map.h"
#include "ops/matmul_norm_hopper.cuh"
#include "ops/matmul_norm_hopper.h"
#include "ops/norm_rows.cuh"

namespace gradmill {
namespace {

using namespace hopper_norm;

template <class N>
struct ForwardWork {
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

template <class N>
struct BackwardWork {
  const N *weight, *bias;
  const N* residual;    // or null
  N *dx, *dropped, *y;  // the last two may be null
  int64_t residual_stride, dx_stride, dropped_stride, y_stride;
  const float *mean, *rstd;
  float* dweight;  // (blocks, C)
  const StepScalars* scalars;
  uint32_t dropout_site;
  float weight_offset;
  int rows, depth;
  bool centered;
};

// The norm's weights in shared memory, as fp32, in the order in which lanes read them.
struct Gain {
  uint32_t at;

  template <int kColumns, class N>
  __device__ void store(const N* weight, float offset) const {
    for (int c = int(threadIdx.x); c < kColumns; c += kConsumers * kWarpgroup) {
      const int place = (c / 64 * 2 + c % 8 / 4) * 32 + c % 64 / 8 * 4 + c % 4;
      cuda::store_shared(at + uint32_t(place) * 4, __float_as_uint(__fadd_rn(cuda::to_float(weight[c]), offset)));
    }
  }
  __device__ void load(int pack, float (&gain)[8]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 bits = cuda::load_shared_16(at + uint32_t((pack * 2 + half) * 8 + int(threadIdx.x) % kLanes) * 16);
      gain[half * 4] = __uint_as_float(bits.x), gain[half * 4 + 1] = __uint_as_float(bits.y);
      gain[half * 4 + 2] = __uint_as_float(bits.z), gain[half * 4 + 3] = __uint_as_float(bits.w);
    }
  }
};

// Over the columns of a row: add(pack, i, sum) is the sum with one more. Packs have sums of their own: a chain of 48
// would take longer than all the rest.
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

// What becomes of a tile's rows, by a warp. Its lanes have eight columns of each panel of a row.
template <class N, int kColumns>
struct Forward {
  static constexpr bool kRows = false;
  using Rows = Strip<N, kColumns>;
  static constexpr int kPacks = kColumns / 64;
  const ForwardWork<N>& work;
  Gain gains;
  uint32_t sums;                               // not used
  int column = int(threadIdx.x) % kLanes * 8;  // of the first panel

  // Accumulators begin with the product's bias.
  __device__ void prepare(Accumulator<kColumns>& c) const {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      Packed2 bias = {};
      if (work.product_bias) bias = load_pair(work.product_bias + i * 8 + int(threadIdx.x) % 4 * 2);
      auto& tile = c[i / (kColumns / 16)][i % (kColumns / 16)];
      tile[0] = tile[2] = bias.x;
      tile[1] = tile[3] = bias.y;
    }
  }
  __device__ void finish(const Rows& x, const Rows& delta, int tile, int strip) const {
    if (work.scalars) {
      finish_rows<true>(x, delta, tile, strip);
    } else {
      finish_rows<false>(x, delta, tile, strip);
    }
  }

 private:
  template <bool kDrops>
  __device__ void finish_rows(const Rows& x, const Rows& delta, int tile, int strip) const {
    cuda::DropoutRule rule;
    if constexpr (kDrops) rule = cuda::DropoutRule(*work.scalars, work.dropout_site);
#pragma unroll 1
    for (int within = 0; within < kStripRows; within += kRowsAtOnce) {
      const int own = strip + within + int(threadIdx.x) % 32 / kLanes, row = tile * kTileRows + own;
      Packed<N> values[kPacks];
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        values[p] = delta.load(own, p);
        if constexpr (kDrops) values[p] = dropped(rule, values[p], row, column + p * 64);
        values[p] = x.load(own, p) + values[p];
      }
      const bool there = row < work.rows;
      const RowStats stats = stats_of(values);
      if (there && column == 0) {
        if (work.centered) work.mean[row] = stats.mean;
        work.rstd[row] = stats.rstd;
      }
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const int at = column + p * 64;
        float gain[8];
        gains.load(p, gain);
        values[p].store_if(there, work.sum + row * work.sum_stride + at);
        normalised(
            values[p], stats, [&](int i) { return gain[i]; }, work.bias ? work.bias + at : nullptr)
            .store_if(there, work.y + row * work.y_stride + at);
      }
    }
  }

  struct Packed2 {
    float x, y;
  };
  __device__ static Packed2 load_pair(const N* from) { return {cuda::to_float(from[0]), cuda::to_float(from[1])}; }

  __device__ RowStats stats_of(const Packed<N> (&values)[kPacks]) const {
    float mean = 0;
    if (work.centered) {
      mean = row_total<kPacks>([&](int p, int i, float sum) { return sum + values[p][i]; }) * (1.0f / kColumns);
    }
    const float squares = row_total<kPacks>([&](int p, int i, float sum) {
      const float centred = values[p][i] - mean;
      return fmaf(centred, centred, sum);
    });
    return {mean, rstd_of(squares, kColumns, work.eps)};
  }
};

template <class N, int kColumns>
struct Backward {
  static constexpr bool kRows = true;
  using Rows = Strip<N, kColumns>;
  static constexpr int kPacks = kColumns / 64;
  const BackwardWork<N>& work;
  Gain gains;
  uint32_t sums;  // shared memory: of dweight, by warps
  int column = int(threadIdx.x) % kLanes * 8;

  __device__ void prepare(Accumulator<kColumns>& c) const {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) c[i / (kColumns / 4)][i % (kColumns / 4) / 4][i % 4] = 0;
  }
  __device__ void finish(const Rows& sum, const Rows& dy, int tile, int strip) const {
    if (work.dropped) {
      finish_rows<true>(sum, dy, tile, strip);
    } else {
      finish_rows<false>(sum, dy, tile, strip);
    }
  }
  // The block's part of dweight.
  __device__ void write_sums() const {
    sync_consumers();
    for (int c = int(threadIdx.x); c < kColumns; c += kConsumers * kWarpgroup) {
      float total = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) total += cuda::load_shared_float(sum_at(warp, c));
      work.dweight[int64_t{blockIdx.x} * kColumns + c] = total;
    }
  }

 private:
  struct RowInputs {
    Packed<N> residual[kPacks];
  };
  __device__ RowInputs inputs_of(int row) const {
    RowInputs inputs = {};
    if (work.residual == nullptr) return inputs;
    const N* from = work.residual + min(row, work.rows - 1) * work.residual_stride + column;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) inputs.residual[p] = Packed<N>::load(from + p * 64);
    return inputs;
  }

  template <bool kDrops>
  __device__ void finish_rows(const Rows& sum, const Rows& dy, int tile, int strip) const {
    constexpr int kTurns = kStripRows / kRowsAtOnce;
    const int first = strip + int(threadIdx.x) % 32 / kLanes;
    cuda::DropoutRule rule;
    if constexpr (kDrops) rule = cuda::DropoutRule(*work.scalars, work.dropout_site);
    RowInputs next = inputs_of(tile * kTileRows + first);
    RowStats all_stats[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int row = min(tile * kTileRows + first + turn * kRowsAtOnce, work.rows - 1);
      all_stats[turn] = {work.centered ? work.mean[row] : 0.0f, work.rstd[row]};
    }
    float dweight[kPacks][8] = {};
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn) {
      const int own = first + turn * kRowsAtOnce, row = tile * kTileRows + own;
      const RowStats stats = all_stats[0];
#pragma unroll
      for (int i = 0; i + 1 < kTurns; ++i) all_stats[i] = all_stats[i + 1];
      finish_row<kDrops>(sum, dy, rule, own, row, stats, next, dweight);
      if (turn + 1 < kTurns) next = inputs_of(row + kRowsAtOnce);
    }
    if (work.dweight) add_sums(dweight, tile == int(blockIdx.x));
  }

  template <bool kDrops>
  __device__ void finish_row(const Rows& sum, const Rows& dy, const cuda::DropoutRule& rule, int own, int row,
                             const RowStats& stats, const RowInputs& inputs, float (&dweight)[kPacks][8]) const {
    const bool there = row < work.rows;
    float sums_g[kPacks] = {}, sums_gn[kPacks] = {}, mean_g = 0, mean_gn = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      float gain[8];
      gains.load(p, gain);
      const Packed<N> values = sum.load(own, p), grads = dy.load(own, p);  // rows that are not there: dy is 0
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float normal = (values[i] - stats.mean) * stats.rstd;
        const float g = grads[i] * gain[i];
        sums_g[p] += g;
        sums_gn[p] = fmaf(g, normal, sums_gn[p]);
        dweight[p][i] = fmaf(grads[i], normal, dweight[p][i]);
      }
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) mean_g += sums_g[p], mean_gn += sums_gn[p];
    mean_g = work.centered ? cuda::warp_reduce<kLanes>(mean_g, Sum{}) * (1.0f / kColumns) : 0.0f;
    mean_gn = cuda::warp_reduce<kLanes>(mean_gn, Sum{}) * (1.0f / kColumns);
    const RowGradient gradient(stats.rstd, mean_g, mean_gn);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int at = column + p * 64;
      float gain[8];
      gains.load(p, gain);
      const Packed<N> values = sum.load(own, p), grads = dy.load(own, p);
      const auto dx = Packed<N>::of(
          [&](int i) { return gradient(inputs.residual[p][i], grads[i] * gain[i], values[i] - stats.mean); });
      dx.store_if(there, work.dx + row * work.dx_stride + at);
      if constexpr (kDrops) {
        dropped(rule, dx, row, at).store_if(there, work.dropped + row * work.dropped_stride + at);
      }
      if (work.y) {
        normalised(
            values, stats, [&](int i) { return gain[i]; }, work.bias ? work.bias + at : nullptr)
            .store_if(there, work.y + row * work.y_stride + at);
      }
    }
  }

  __device__ uint32_t sum_at(int warp, int at) const { return sums + uint32_t(warp * kColumns + at) * 4; }
  // To those of the warp's tiles before.
  __device__ void add_sums(const float (&dweight)[kPacks][8], bool first) const {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kPacks * 8; ++i) {
      float total = dweight[i / 8][i % 8];
#pragma unroll
      for (int lanes = kLanes; lanes < 32; lanes *= 2) total += __shfl_xor_sync(0xffffffffu, total, lanes);
      const uint32_t to = sum_at(warp, column + i / 8 * 64 + i % 8);
      if (lane < kLanes) {
        cuda::store_shared(to, __float_as_uint(first ? total : total + cuda::load_shared_float(to)));
      }
    }
  }
};

template <class N, int kColumns, template <class, int> class Pass, class Work>
__global__ void __launch_bounds__(kThreads, 1)
    matmul_norm_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Work work) {
#ifdef GRADMILL_HOPPER_CODE
  using Finisher = Pass<N, kColumns>;
  extern __shared__ uint4 memory[];
  const Layout<kColumns> shared(memory);
  const Tiles tiles(work.rows);
  const int blocks = work.depth / kBlock, rank = cuda::cluster_rank();
  const int warp = __shfl_sync(~0u, int(threadIdx.x) / 32, 0), warpgroup = warp / 4, strip = warp * kStripRows;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Layout<kColumns>::kStages; ++stage) {
      cuda::barrier_init(shared.full(stage), 1);
      cuda::barrier_init(shared.empty(stage), kCluster * kWarps);
    }
    cuda::barrier_init(shared.rows_here(), 1);
    cuda::barrier_init(shared.tile_done(), kCluster * kWarps);
    cuda::barrier_init_done();
  }
  __syncthreads();
  cuda::cluster_arrive();
  cuda::cluster_wait();
  if (warpgroup == kConsumers) {
    cuda::give_registers<40>();
    if (threadIdx.x % kWarpgroup == 0) bring<kColumns, Finisher::kRows>(shared, maps, tiles, blocks, rank);
  } else {
    cuda::take_registers<232>();
    const Finisher finisher{work, {shared.gain()}, shared.sums()};
    finisher.gains.template store<kColumns>(work.weight, work.weight_offset);
    int count = 0, done = 0;
#pragma unroll 1
    for (int tile = tiles.first; tile < tiles.end; tile += tiles.step, ++done) {
      Accumulator<kColumns> c;
      finisher.prepare(c);
      multiply<N, kColumns, Finisher::kRows>(shared, warpgroup, count, blocks, c);
      count += blocks;
      sync_consumers();  // nobody reads the stages any more
      const Strip<N, kColumns> rows(shared, count, 0), product(shared, count, Strip<N, kColumns>::kPacks);
      product.store(strip, c);
      cuda::barrier_wait(shared.rows_here(), uint32_t(done) % 2);
      finisher.finish(rows, product, tile, strip);
      cuda::show_to_products();
      __syncwarp();
      arrive_everywhere(shared.tile_done());
    }
    if constexpr (Finisher::kRows) {
      if (work.dweight) finisher.write_sums();
    }
  }
  // A block's barriers are there until its neighbour has arrived at them.
  cuda::cluster_arrive();
  cuda::cluster_wait();
#else
  __trap();
#endif
}

bool has_columns(int64_t columns) { return columns == 384 || columns == 256; }

template <class... Views>
bool can_multiply(const ExecContext& ctx, const MatmulArgs& product, const Views&... views) {
#ifndef GRADMILL_WITH_WGMMA
  return false;
#endif
  constexpr int64_t kFewestRows = 8192;  // half of an H100's multiprocessors
  constexpr int64_t kLeastDepth = 256;   // as many blocks as stages
  const TensorView &a = product.a, &c = product.c;
  const auto fits = [](const TensorView& view) { return !view.defined() || cuda::rows_are_aligned<Bf16>(view); };
  const bool small = a.dtype == DType::bf16 || a.dtype == DType::fp16;
  return ctx.cuda != nullptr && ctx.cuda->compute_capability() == 90 && small && has_columns(c.cols()) &&
         !product.transpose_a && product.alpha == 1 && product.beta == 0 && product.batch.count == 1 &&
         a.cols() % kBlock == 0 && a.cols() >= kLeastDepth && a.rows() >= kFewestRows && fits(a) && fits(product.b) &&
         fits(product.bias) && (fits(views) && ...);
}

template <class T, template <class, int> class Pass, class Work>
int start(ExecContext& ctx, const MatmulArgs& product, const TensorView& rows, const TensorView& more, int most,
          const Work& work) {
  const int tiles = (work.rows + kTileRows - 1) / kTileRows;
  const int even = (std::min({tiles + 1, ctx.cuda->num_units(), most})) / kCluster * kCluster;
  const auto run = [&]<int kColumns>() {
    const Maps maps{cuda::map_tiles(product.a, kTileRows),
                    cuda::map_tiles(product.b, product.transpose_b ? kColumns / kCluster : kBlock),
                    cuda::map_tiles(rows, kTileRows), cuda::map_tiles(more.defined() ? more : rows, kTileRows),
                    more.defined()};
    cuda::LaunchConfig config(dim3(unsigned(even)), dim3(kThreads), cuda::stream_of(ctx), Layout<kColumns>::kBytes);
    config.cluster = kCluster;
    cuda::launch(config, matmul_norm_kernel<cuda::Native<T>, kColumns, Pass, Work>, maps, work);
  };
  if (product.c.cols() == 384) {
    run.template operator()<384>();
  } else {
    run.template operator()<256>();
  }
  return even;
}

}  // namespace

bool hopper_supports(const ExecContext& ctx, const MatmulArgs& product, const NormArgs& args) {
  return args.delta.defined() && product.transpose_b &&
         can_multiply(ctx, product, args.x, args.weight, args.bias, args.sum, args.y.plain);
}

bool hopper_supports(const ExecContext& ctx, const MatmulArgs& product, const NormGradArgs& args) {
  return !product.transpose_b && !product.bias.defined() && !args.dbias.defined() && !args.dbranch_bias.defined() &&
         can_multiply(ctx, product, args.sum, args.weight, args.dresidual, args.dx, args.y.plain, args.bias,
                      args.dropped);
}

template <class T>
void hopper_matmul_norm(ExecContext& ctx, const MatmulArgs& product, const NormArgs& args) {
  const ForwardWork<cuda::Native<T>> work{.product_bias = optional<T>(product.bias),
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
                                          .depth = int(product.a.cols()),
                                          .centered = args.kind == NormKind::layer};
  start<T, Forward>(ctx, product, args.x, {}, ctx.cuda->num_units(), work);
}

template <class T>
TensorView hopper_matmul_norm_backward(ExecContext& ctx, const MatmulArgs& product, const NormGradArgs& args,
                                       const TensorView& partials) {
  const BackwardWork<cuda::Native<T>> work{.weight = cuda::native<T>(args.weight),
                                           .bias = optional<T>(args.bias),
                                           .residual = optional<T>(args.dresidual),
                                           .dx = cuda::native<T>(args.dx),
                                           .dropped = optional<T>(args.dropped),
                                           .y = optional<T>(args.y.plain),
                                           .residual_stride = args.dresidual.row_stride,
                                           .dx_stride = args.dx.row_stride,
                                           .dropped_stride = args.dropped.row_stride,
                                           .y_stride = args.y.plain.row_stride,
                                           .mean = optional<float>(args.mean),
                                           .rstd = args.rstd.ptr<float>(),
                                           .dweight = args.dweight.defined() ? partials.ptr<float>() : nullptr,
                                           .scalars = ctx.scalars,
                                           .dropout_site = args.dropout_site,
                                           .weight_offset = args.weight_offset,
                                           .rows = int(args.sum.rows()),
                                           .depth = int(product.a.cols()),
                                           .centered = args.kind == NormKind::layer};
  const int blocks = start<T, Backward>(ctx, product, args.sum, args.dresidual, int(partials.rows()), work);
  return TensorView(partials.ptr<float>(), DType::fp32, {blocks, args.sum.cols()});
}

template void hopper_matmul_norm<Bf16>(ExecContext&, const MatmulArgs&, const NormArgs&);
template void hopper_matmul_norm<Fp16>(ExecContext&, const MatmulArgs&, const NormArgs&);
template TensorView hopper_matmul_norm_backward<Bf16>(ExecContext&, const MatmulArgs&, const NormGradArgs&,
                                                      const TensorView&);
template TensorView hopper_matmul_norm_backward<Fp16>(ExecContext&, const MatmulArgs&, const NormGradArgs&,
                                                      const TensorView&);

}  // namespace gradmill
