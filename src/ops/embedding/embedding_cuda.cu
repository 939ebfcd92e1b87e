// SPDX-License-Identifier: Apache-2.0
// Table lookup on a GPU. The gradient sorts rows by entry (embedding_sort.cuh), divides the sorted rows into chunks of
// fixed size and sums each chunk in order. So an entry that is used once and one that is used by every row cost the
// same per row, and no two blocks write to the same place. If the first rows of a chunk continue an entry of the
// previous chunk, their sum is a partial sum, which a second kernel adds. Memory traffic: dy once, each used entry
// once. Tables with few entries have separate kernels (embedding_few.cuh).
#include "ops/embedding/embedding.h"

#include <algorithm>
#include <bit>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/philox.cuh"
#include "cuda/reduce.cuh"
#include "ops/embedding/embedding_few.cuh"
#include "ops/embedding/embedding_sort.cuh"

namespace gradmill {
namespace {

using cuda::Pack;

constexpr int kThreads = 256;

template <class N>
struct LookUp {
  const int32_t* indices;
  const N* table;
  const int32_t* position_indices;  // may be null
  const N* position_table;
  const int32_t* type_indices;  // null: all 0
  const N* type_table;          // may be null
  N* y;
  int64_t table_stride, position_stride, type_stride, y_stride, rows, cols;
  float scale;
  const StepScalars* scalars;  // null: no dropout
  uint32_t dropout_site;
};

// Applies the dropout op to kPack columns from `col` on, a multiple of kPack.
template <class N, int kPack>
__device__ void drop(const cuda::DropoutRule& rule, int64_t row, int64_t col, Pack<N, kPack>& pack) {
  constexpr int64_t kBlock = 8;  // columns that share random words
  const uint4 words = rule.words(static_cast<uint32_t>(row), static_cast<uint32_t>(col / kBlock));
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const bool kept = rule.keeps(words, static_cast<int>(col % kBlock) + i);
    pack.set(i, kept ? __fmul_rn(pack[i], rule.scale) : 0.0f);
  }
}

// kPack columns of a row: their sources and their destination.
template <class N, int kPack>
struct LookedUp {
  using Vector = Pack<N, kPack>;
  Vector entry, position, type;

  __device__ void load(const LookUp<N>& args, int64_t row, int64_t col) {
    entry = Vector::load(args.table + args.indices[row] * args.table_stride + col);
    if (args.position_table != nullptr) {
      position = Vector::load(args.position_table + args.position_indices[row] * args.position_stride + col);
    }
    if (args.type_table != nullptr) {
      const int64_t type_row = args.type_indices != nullptr ? args.type_indices[row] : 0;
      type = Vector::load(args.type_table + type_row * args.type_stride + col);
    }
  }
  __device__ Vector sum(const LookUp<N>& args) const {
    const bool positions = args.position_table != nullptr, types = args.type_table != nullptr;
    Vector to;
    for (int i = 0; i < kPack; ++i) {
      const float add = !types ? position[i] : __fadd_rn(positions ? position[i] : 0.0f, type[i]);
      to.set(i, positions || types ? fmaf(args.scale, entry[i], add) : args.scale * entry[i]);
    }
    return to;
  }
};

// A thread processes kEach packs, far apart, whose loads do not wait for each other.
constexpr int kEach = 2;

template <class N, int kPack>
__global__ void __launch_bounds__(kThreads) look_up_kernel(const LookUp<N> args, const unsigned packs) {
  const unsigned packs_a_row = static_cast<unsigned>(args.cols) / kPack, threads = gridDim.x * kThreads;
  const unsigned first = blockIdx.x * kThreads + threadIdx.x;
  LookedUp<N, kPack> parts[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const unsigned pack = first + static_cast<unsigned>(i) * threads;
    if (pack < packs) parts[i].load(args, pack / packs_a_row, pack % packs_a_row * kPack);
  }
  cuda::DropoutRule rule;
  if (args.scalars) rule = cuda::DropoutRule(*args.scalars, args.dropout_site);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const unsigned pack = first + static_cast<unsigned>(i) * threads;
    if (pack >= packs) return;
    const int64_t row = pack / packs_a_row, col = pack % packs_a_row * kPack;
    Pack<N, kPack> to = parts[i].sum(args);
    if (rule.threshold > 0) drop(rule, row, col, to);
    to.store(args.y + row * args.y_stride + col);
  }
}

template <class N>
struct Gradient {
  const int32_t *entries, *order;  // sorted by entry, then by row
  const N* dy;
  float *dtable, *partials;  // (V, C), (chunks, C)
  int64_t dy_stride, rows, cols;
  float scale;
  bool add;  // adds to the entries
};

// Processes one chunk of sorted rows and blockDim * kPack of the columns.
template <class N, int kPack>
__global__ void __launch_bounds__(kThreads) sum_chunks_kernel(const Gradient<N> args) {
  constexpr int kBatch = 4;
  using Floats = Pack<float, kPack>;
  __shared__ int entries[kEmbeddingChunk + 1], order[kEmbeddingChunk];
  const int64_t begin = int64_t{blockIdx.x} * kEmbeddingChunk;
  const int count = static_cast<int>(min(int64_t{kEmbeddingChunk}, args.rows - begin));
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    entries[i] = args.entries[begin + i];
    order[i] = args.order[begin + i];
  }
  if (threadIdx.x == 0) entries[count] = -1;
  __syncthreads();
  const int64_t col = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kPack;
  if (col >= args.cols) return;
  // The first rows may continue an entry of the previous chunk, whose block writes it to the table.
  const int continued = begin > 0 && args.entries[begin - 1] == entries[0] ? entries[0] : -1;
  Floats sum;
  for (int i = 0; i < kPack; ++i) sum.values[i] = 0;
  for (int first = 0; first < count; first += kBatch) {
    Pack<N, kPack> dy[kBatch];
    Floats old[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = first + b;
      if (i >= count) break;
      dy[b] = Pack<N, kPack>::load(args.dy + order[i] * args.dy_stride + col);
      const bool adds = args.add && entries[i] != entries[i + 1] && entries[i] != continued;
      if (adds) old[b] = Floats::load(args.dtable + entries[i] * args.cols + col);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = first + b;
      if (i >= count) break;
      for (int j = 0; j < kPack; ++j) sum.values[j] += dy[b][j];
      if (entries[i] == entries[i + 1]) continue;
      const bool partial = entries[i] == continued;
      float* to = partial ? args.partials + blockIdx.x * args.cols : args.dtable + entries[i] * args.cols;
      for (int j = 0; j < kPack; ++j) {
        sum.values[j] = fmaf(args.scale, sum.values[j], args.add && !partial ? old[b].values[j] : 0.0f);
      }
      sum.store(to + col);
      for (int j = 0; j < kPack; ++j) sum.values[j] = 0;
    }
  }
}

constexpr int kJoinCols = 64, kJoinGroups = 8;

// For an entry that begins in the previous chunk and continues in this one: adds the partial sums of this chunk and the
// following ones that it reaches. Groups of threads take every eighth partial sum and are then added in order.
template <class N>
__global__ void __launch_bounds__(kJoinCols* kJoinGroups) join_chunks_kernel(const Gradient<N> args) {
  __shared__ float shared[kJoinGroups][kJoinCols];
  const int64_t chunk = int64_t{blockIdx.x} + 1, begin = chunk * kEmbeddingChunk;
  const int entry = args.entries[begin];
  if (args.entries[begin - 1] != entry) return;
  if (chunk > 1 && args.entries[begin - kEmbeddingChunk - 1] == entry) return;
  const int64_t col = int64_t{blockIdx.y} * kJoinCols + threadIdx.x;
  const int64_t chunks = (args.rows + kEmbeddingChunk - 1) / kEmbeddingChunk;
  float sum = 0;
  if (col < args.cols) {
#pragma unroll 4
    for (int64_t c = chunk + threadIdx.y; c < chunks && args.entries[c * kEmbeddingChunk] == entry; c += kJoinGroups) {
      sum += args.partials[c * args.cols + col];
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || col >= args.cols) return;
  for (int group = 1; group < kJoinGroups; ++group) sum += shared[group][threadIdx.x];
  args.dtable[entry * args.cols + col] += sum;
}

__global__ void __launch_bounds__(kThreads) scale_kernel(float* values, int64_t size, float factor) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < size; i += stride) values[i] *= factor;
}

// Applies beta to the old gradient. With beta 1, unused entries are not touched at all: a tied head has written them
// already.
void apply_beta(ExecContext& ctx, const TensorView& dtable, float beta) {
  const cudaStream_t stream = cuda::stream_of(ctx);
  if (beta == 0) {
    cuda::check(cudaMemsetAsync(dtable.data, 0, dtable.bytes(), stream), "clearing the gradient of a table");
  } else if (beta != 1) {
    const auto blocks = static_cast<unsigned>(8 * ctx.device.num_units);
    cuda::launch({blocks, kThreads, stream}, scale_kernel, dtable.ptr<float>(), dtable.numel(), beta);
  }
}

template <class N, int kPack>
void sum_sorted(ExecContext& ctx, const Gradient<N>& gradient) {
  const cudaStream_t stream = cuda::stream_of(ctx);
  const auto chunks = static_cast<unsigned>((gradient.rows + kEmbeddingChunk - 1) / kEmbeddingChunk);
  const int64_t packs = (gradient.cols + kPack - 1) / kPack;
  const int64_t threads =
      std::min<int64_t>(kThreads, (packs + cuda::kWarpSize - 1) / cuda::kWarpSize * cuda::kWarpSize);
  cuda::launch(
      {dim3(chunks, static_cast<unsigned>((packs + threads - 1) / threads)), static_cast<unsigned>(threads), stream},
      sum_chunks_kernel<N, kPack>, gradient);
  if (chunks == 1) return;
  const auto tiles = static_cast<unsigned>((gradient.cols + kJoinCols - 1) / kJoinCols);
  cuda::launch({dim3(chunks - 1, tiles), dim3(kJoinCols, kJoinGroups), stream}, join_chunks_kernel<N>, gradient);
}

// Whether packs of 16 bytes of dy and of the table's gradient are aligned.
template <class T>
bool is_aligned(const EmbeddingGradArgs& args) {
  return cuda::rows_are_aligned<T>(args.dy) && reinterpret_cast<uintptr_t>(args.dtable.data) % 16 == 0;
}

bool is_few(const EmbeddingGradArgs& args) { return args.dy.rows() > 0 && has_few_entries(args.dtable); }

// Sums all tables that have few entries, in one launch.
template <class T>
void sum_few_entries(ExecContext& ctx, std::span<const EmbeddingGradArgs> tables,
                     std::span<const EmbeddingGradScratch> scratch) {
  using N = cuda::Native<T>;
  const TensorView& dy = tables.front().dy;
  FewTables few;
  bool aligned = true;
  for (size_t i = 0; i < tables.size(); ++i) {
    const EmbeddingGradArgs& args = tables[i];
    if (!is_few(args)) continue;
    few.tables[few.count++] = {.indices = args.indices.ptr<int32_t>(),
                               .partials = scratch[i].partials.ptr<float>(),
                               .dtable = args.dtable.ptr<float>(),
                               .entries = static_cast<int>(args.dtable.rows()),
                               .scale = args.scale,
                               .beta = args.beta};
    aligned = aligned && is_aligned<T>(args);
  }
  if (few.count == 0) return;
  const FewRows<N> rows{
      .dy = cuda::native<T>(dy), .dy_stride = dy.row_stride, .rows = dy.rows(), .cols = dy.cols(), .slices = 0};
  const auto sum = aligned ? sum_few<N, 16 / sizeof(N)> : sum_few<N, 1>;
  sum(cuda::stream_of(ctx), few, rows);
}

template <class T>
void sum_many_entries(ExecContext& ctx, const EmbeddingGradArgs& args, const EmbeddingGradScratch& scratch) {
  using N = cuda::Native<T>;
  const int64_t rows = args.dy.rows();
  apply_beta(ctx, args.dtable, args.beta);
  if (rows == 0) return;
  const SortedRows sorted = sort_rows(cuda::stream_of(ctx), args.indices.ptr<int32_t>(), rows, args.dtable.rows(),
                                      scratch.order.ptr<int32_t>(), scratch.offsets.ptr<int32_t>());
  const Gradient<N> gradient{.entries = sorted.entries,
                             .order = sorted.rows,
                             .dy = cuda::native<T>(args.dy),
                             .dtable = args.dtable.ptr<float>(),
                             .partials = scratch.partials.ptr<float>(),
                             .dy_stride = args.dy.row_stride,
                             .rows = rows,
                             .cols = args.dy.cols(),
                             .scale = args.scale,
                             .add = args.beta != 0};
  if (is_aligned<T>(args)) {
    sum_sorted<N, 16 / sizeof(N)>(ctx, gradient);
  } else {
    sum_sorted<N, 1>(ctx, gradient);
  }
}

}  // namespace

template <Device D, class T>
void embedding_forward(ExecContext& ctx, const EmbeddingArgs& args) {
  using N = cuda::Native<T>;
  const bool positions = args.position_table.defined(), types = args.type_table.defined();
  const LookUp<N> look_up{.indices = args.indices.ptr<int32_t>(),
                          .table = cuda::native<T>(args.table),
                          .position_indices = positions ? args.position_indices.ptr<int32_t>() : nullptr,
                          .position_table = positions ? cuda::native<T>(args.position_table) : nullptr,
                          .type_indices = args.type_indices.defined() ? args.type_indices.ptr<int32_t>() : nullptr,
                          .type_table = types ? cuda::native<T>(args.type_table) : nullptr,
                          .y = cuda::native<T>(args.y),
                          .table_stride = args.table.row_stride,
                          .position_stride = args.position_table.row_stride,
                          .type_stride = args.type_table.row_stride,
                          .y_stride = args.y.row_stride,
                          .rows = args.y.rows(),
                          .cols = args.y.cols(),
                          .scale = args.scale,
                          .scalars = args.dropout ? ctx.scalars : nullptr,
                          .dropout_site = args.dropout_site};
  if (look_up.rows == 0) return;
  const bool aligned = cuda::rows_are_aligned<T>(args.table) && cuda::rows_are_aligned<T>(args.y) &&
                       (!positions || cuda::rows_are_aligned<T>(args.position_table)) &&
                       (!types || cuda::rows_are_aligned<T>(args.type_table));
  const int64_t pack = aligned ? 16 / int64_t{sizeof(N)} : 1, packs = look_up.rows * (look_up.cols / pack);
  constexpr int64_t kPerBlock = int64_t{kThreads} * kEach;
  assert(look_up.cols % pack == 0 && packs + kPerBlock <= UINT32_MAX);
  const auto blocks = static_cast<unsigned>((packs + kPerBlock - 1) / kPerBlock);
  const auto kernel = aligned ? look_up_kernel<N, 16 / sizeof(N)> : look_up_kernel<N, 1>;
  cuda::launch({blocks, kThreads, cuda::stream_of(ctx)}, kernel, look_up, static_cast<unsigned>(packs));
}

template <Device D, class T>
void embedding_backward(ExecContext& ctx, std::span<const EmbeddingGradArgs> tables,
                        std::span<const EmbeddingGradScratch> scratch) {
  for (size_t i = 0; i < tables.size(); ++i) {
    if (!is_few(tables[i])) sum_many_entries<T>(ctx, tables[i], scratch[i]);
  }
  sum_few_entries<T>(ctx, tables, scratch);
}

template void embedding_forward<Device::cuda, float>(ExecContext&, const EmbeddingArgs&);
template void embedding_forward<Device::cuda, Bf16>(ExecContext&, const EmbeddingArgs&);
template void embedding_forward<Device::cuda, Fp16>(ExecContext&, const EmbeddingArgs&);
template void embedding_backward<Device::cuda, float>(ExecContext&, std::span<const EmbeddingGradArgs>,
                                                      std::span<const EmbeddingGradScratch>);
template void embedding_backward<Device::cuda, Bf16>(ExecContext&, std::span<const EmbeddingGradArgs>,
                                                     std::span<const EmbeddingGradScratch>);
template void embedding_backward<Device::cuda, Fp16>(ExecContext&, std::span<const EmbeddingGradArgs>,
                                                     std::span<const EmbeddingGradScratch>);

}  // namespace gradmill
