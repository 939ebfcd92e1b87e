// SPDX-License-Identifier: Apache-2.0
// Disentangled attention: adds the partial sums of DiagonalTasks to the gradients of the position tables, and chooses
// between the kernels with and without matrix units.
#include <type_traits>

#include "cuda/launch.h"
#include "ops/disentangled/disentangled_cuda.h"
#include "ops/disentangled/disentangled_params.cuh"
#include "ops/attention/flash_launch.h"

namespace gradmill {
namespace disentangled {
namespace {

struct TableJob {
  const int32_t* buckets;  // points to the entry for distance 0
  int reach;               // largest distance of any pair
  const float* partials;
  int heads, head_dim, tiles, diagonals, chunks;
  float scale;
};

// A block computes some columns of a row. The distances of a row are contiguous, because buckets never decrease. Each
// distance is in one or two windows, and in every chunk.
template <class N>
__global__ void table_kernel(const TableJob job, const HeadRows<N> dpos_k, const HeadRows<N> dpos_q) {
  const int bucket = int(blockIdx.x), table = int(blockIdx.z);
  const HeadRows<N>& to = table == 0 ? dpos_k : dpos_q;
  if (to.data == nullptr) return;
  int before = 0, upto = 0;
  for (int first = -job.reach; first <= job.reach; first += int(blockDim.x)) {
    const int distance = first + int(threadIdx.x);
    const int row = distance <= job.reach ? job.buckets[distance] : INT32_MAX;
    before += __syncthreads_count(row < bucket);
    upto += __syncthreads_count(row <= bucket);
  }
  const int column = int(blockIdx.y * blockDim.x + threadIdx.x);
  if (column >= job.heads * job.head_dim) return;
  const int head = column / job.head_dim, within = column % job.head_dim;
  const int64_t window = int64_t(kWindow) * job.head_dim;
  float sum = 0;
  for (int distance = before - job.reach; distance < upto - job.reach; ++distance) {
    const int low = (distance + job.tiles * kTile) / kTile - job.tiles;  // division rounding down
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int diagonal = low + side, row = distance - diagonal * kTile + kTile - 1;
      if (row < 0 || diagonal <= -job.tiles || diagonal >= job.tiles) continue;
      const int64_t index = int64_t(head * job.diagonals + rank_of(diagonal)) * job.chunks;
      const float* from = job.partials + (index * 2 + table) * window + row * job.head_dim + within;
#pragma unroll 4
      for (int chunk = 0; chunk < job.chunks; ++chunk) sum += from[chunk * 2 * window];
    }
  }
  *to.at(bucket, column) = cuda::from_float<N>(sum * job.scale);
}

}  // namespace

template <class T>
void add_table_partials(ExecContext& ctx, const DisentangledAttentionGradArgs& args, const TensorView& partials) {
  using N = cuda::Native<T>;
  const AttentionArgs& content = args.forward.content;
  const DiagonalTasks tasks(content, ctx.device);
  const auto rows = [](const TensorView& view) {
    return view.defined() ? HeadRows<N>{cuda::native<T>(view), view.row_stride} : HeadRows<N>{nullptr, 0};
  };
  const int64_t farthest = args.forward.buckets.numel() / 2;
  const TableJob job{.buckets = args.forward.buckets.ptr<int32_t>() + farthest,
                     .reach = int(std::min(content.seq.max_len, content.q.rows()) - 1),
                     .partials = partials.ptr<float>(),
                     .heads = int(content.heads),
                     .head_dim = int(content.head_dim),
                     .tiles = int(tasks.tiles),
                     .diagonals = int(tasks.diagonals),
                     .chunks = int(tasks.chunks),
                     .scale = content.scale};
  constexpr int kThreads = 256;
  const dim3 grid(unsigned(num_buckets(args.forward)), unsigned((content.q.cols() + kThreads - 1) / kThreads), 2);
  cuda::launch({grid, kThreads, cuda::stream_of(ctx)}, table_kernel<N>, job, rows(args.dpos_k), rows(args.dpos_q));
}

template void add_table_partials<float>(ExecContext&, const DisentangledAttentionGradArgs&, const TensorView&);
template void add_table_partials<Bf16>(ExecContext&, const DisentangledAttentionGradArgs&, const TensorView&);
template void add_table_partials<Fp16>(ExecContext&, const DisentangledAttentionGradArgs&, const TensorView&);

}  // namespace disentangled

template <Device D, class T>
void disentangled_attention_forward(ExecContext& ctx, const DisentangledAttentionArgs& args) {
  const AttentionArgs& content = args.content;
  if (content.q.rows() == 0) return;
  if (flash::has_padding(content.seq, content.q.rows())) {
    const TensorView& lse = content.lse;
    const auto* end = content.seq.cu_q.ptr<int32_t>() + content.seq.max_seqs;
    flash::clear_padding(ctx, {flash::padding_of(content.out, end),
                               {lse.data, 1, lse.row_stride, lse.cols(), int(content.heads), 4, end}});
  }
  if (content.seq.max_seqs == 0) return;
  if constexpr (!std::is_same_v<T, float>) {
    if (disentangled::matrix_forward<T>(ctx, args)) return;
  }
  disentangled::simt_forward<T>(ctx, args);
}

template <Device D, class T>
void disentangled_attention_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args,
                                     const TensorView& workspace) {
  const AttentionArgs& content = args.forward.content;
  if (content.q.rows() > 0 && flash::has_padding(content.seq, content.q.rows())) {
    const auto* end = content.seq.cu_q.ptr<int32_t>() + content.seq.max_seqs;
    flash::clear_padding(
        ctx, {flash::padding_of(args.dq, end), flash::padding_of(args.dk, end), flash::padding_of(args.dv, end)});
  }
  const int64_t rows = content.lse.numel();
  // The partial sums come first: they are stored in pairs, and the number of rows may be odd.
  const TensorView partials(workspace.data, DType::fp32, {workspace.numel() - rows});
  const TensorView delta(workspace.ptr<float>() + partials.numel(), DType::fp32, {rows});
  if (content.q.rows() > 0 && content.seq.max_seqs > 0) {
    flash::sum_outputs<T>(ctx, {content, args.dout, args.dq, args.dk, args.dv}, delta);
    bool done = false;
    if constexpr (!std::is_same_v<T, float>) done = disentangled::matrix_backward<T>(ctx, args, delta, partials);
    if (!done) disentangled::simt_backward<T>(ctx, args, delta, partials);
  }
  disentangled::add_table_partials<T>(ctx, args, partials);
}

template void disentangled_attention_forward<Device::cuda, float>(ExecContext&, const DisentangledAttentionArgs&);
template void disentangled_attention_forward<Device::cuda, Bf16>(ExecContext&, const DisentangledAttentionArgs&);
template void disentangled_attention_forward<Device::cuda, Fp16>(ExecContext&, const DisentangledAttentionArgs&);
template void disentangled_attention_backward<Device::cuda, float>(ExecContext&, const DisentangledAttentionGradArgs&,
                                                                   const TensorView&);
template void disentangled_attention_backward<Device::cuda, Bf16>(ExecContext&, const DisentangledAttentionGradArgs&,
                                                                  const TensorView&);
template void disentangled_attention_backward<Device::cuda, Fp16>(ExecContext&, const DisentangledAttentionGradArgs&,
                                                                  const TensorView&);

}  // namespace gradmill
