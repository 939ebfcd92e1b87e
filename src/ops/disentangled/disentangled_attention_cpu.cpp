// SPDX-License-Identifier: Apache-2.0
// Disentangled attention on the CPU: the loops of ops/attention/attention with the position terms. In the forward, a
// task is one tile of queries of one head. In the backward, it is one head of some neighbouring sequences, with its own
// partial sums for the gradients of the position tables.
#include "ops/disentangled/disentangled_attention_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/disentangled/disentangled_attention_cpu.cpp"
#include "hwy/foreach_target.h"

#include "ops/attention/attention_backward-inl.h"
#include "ops/attention/attention_forward-inl.h"
#include "ops/disentangled/disentangled_terms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {

void disentangled_forward_tile(DType dtype, const DisentangledAttentionArgs& args, const AttentionDropout& dropout,
                               const SequenceRows& rows, int64_t head, Range queries) {
  visit_float(dtype, [&]<class T>(T) {
    PositionTerms<T> terms(args, {});
    forward_tile<T>(args.content, dropout, rows, head, queries, terms);
  });
}

// Processes all sequences of `seqs`.
void disentangled_backward_head(DType dtype, const DisentangledAttentionGradArgs& args, const AttentionDropout& dropout,
                                const TensorView& accumulator, Range seqs, int64_t head, const TableSums& sums) {
  const AttentionArgs& content = args.forward.content;
  const AttentionGradArgs contents{content, args.dout, args.dq, args.dk, args.dv};
  visit_float(dtype, [&]<class T>(T) {
    PositionTerms<T> terms(args.forward, sums);
    for (int64_t seq = seqs.begin; seq < seqs.end; ++seq) {
      backward_keys<T>(contents, dropout, accumulator, sequence_rows(content.seq, seq), head, terms);
    }
  });
}

template <class T>
void add_table_sums(const float* sums, int64_t count, int64_t size, int64_t cols, T* to) {
  for_each_vector(cols, [&](int64_t, auto in, auto out) HWY_ATTR {
    Floats sum = zeros();
    for (int64_t part = 0; part < count; ++part) sum = hn::Add(sum, in(sums + part * size));
    out(sum, to);
  });
}
// Adds one row of a table's gradient from `count` partial sums, which are `size` numbers apart.
void disentangled_table_row(const TensorView& table, int64_t row, const float* sums, int64_t count, int64_t size) {
  visit_float(table.dtype, [&]<class T>(T) { add_table_sums(sums, count, size, table.cols(), table.row<T>(row)); });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/thread_pool.h"
#include "ops/disentangled/disentangled_partials.h"

namespace gradmill {
namespace {
using namespace attention;
HWY_EXPORT(disentangled_forward_tile);
HWY_EXPORT(disentangled_backward_head);
HWY_EXPORT(disentangled_table_row);
}  // namespace

template <Device D, class T>
void disentangled_attention_forward(ExecContext& ctx, const DisentangledAttentionArgs& args) {
  const auto tile = HWY_DYNAMIC_DISPATCH(disentangled_forward_tile);
  const AttentionDropout dropout = attention_dropout(ctx, args.content);
  forward_tiles<T>(ctx, args.content, [&](const SequenceRows& rows, int64_t head, Range queries) {
    tile(dtype_of<T>, args, dropout, rows, head, queries);
  });
}

template <Device D, class T>
void disentangled_attention_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args,
                                     const TensorView& workspace) {
  const auto backward_head = HWY_DYNAMIC_DISPATCH(disentangled_backward_head);
  const auto table_row = HWY_DYNAMIC_DISPATCH(disentangled_table_row);
  const AttentionArgs& content = args.forward.content;
  const AttentionDropout dropout = attention_dropout(ctx, content);
  const int64_t cols = content.q.cols(), rows = num_buckets(args.forward), chunks = task_chunks(content);
  TensorView accumulator;
  float* partials = workspace.ptr<float>();
  if (dtype_of<T> != DType::fp32) {
    accumulator = TensorView(partials, DType::fp32, {2, content.q.rows(), cols});
    partials += accumulator.numel();
  }
  const int64_t group = (content.seq.max_seqs + chunks - 1) / chunks;
  ctx.pool->run(chunks * content.heads, [&](int64_t index) {
    const int64_t chunk = index / content.heads, head = index % content.heads;
    const Range seqs{chunk * group, std::min((chunk + 1) * group, content.seq.max_seqs)};
    float* pos_k = partials + chunk * 2 * rows * cols;
    for (int64_t row = 0; row < 2 * rows; ++row) {
      std::fill_n(pos_k + row * cols + head * content.head_dim, content.head_dim, 0.0f);
    }
    backward_head(dtype_of<T>, args, dropout, accumulator, seqs, head, {pos_k, pos_k + rows * cols, cols});
  });
  ctx.pool->run(rows, [&](int64_t row) {
    const float* sums = partials + row * cols;
    if (args.dpos_k.defined()) table_row(args.dpos_k, row, sums, chunks, 2 * rows * cols);
    if (args.dpos_q.defined()) table_row(args.dpos_q, row, sums + rows * cols, chunks, 2 * rows * cols);
  });
  const int64_t padding = content.seq.cu_q.ptr<int32_t>()[content.seq.max_seqs];
  for (const TensorView& view : {args.dq, args.dk, args.dv}) clear_rows<T>(view, padding);
}

template void disentangled_attention_forward<Device::cpu, float>(ExecContext&, const DisentangledAttentionArgs&);
template void disentangled_attention_forward<Device::cpu, Bf16>(ExecContext&, const DisentangledAttentionArgs&);
template void disentangled_attention_forward<Device::cpu, Fp16>(ExecContext&, const DisentangledAttentionArgs&);
template void disentangled_attention_backward<Device::cpu, float>(ExecContext&, const DisentangledAttentionGradArgs&,
                                                                  const TensorView&);
template void disentangled_attention_backward<Device::cpu, Bf16>(ExecContext&, const DisentangledAttentionGradArgs&,
                                                                 const TensorView&);
template void disentangled_attention_backward<Device::cpu, Fp16>(ExecContext&, const DisentangledAttentionGradArgs&,
                                                                 const TensorView&);

}  // namespace gradmill
#endif
