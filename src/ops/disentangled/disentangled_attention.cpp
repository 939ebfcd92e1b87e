// SPDX-License-Identifier: Apache-2.0
// Disentangled attention: buckets of distances, validation, cost, scratch and dispatch.
#include "ops/disentangled/disentangled_attention.h"

#include <algorithm>
#include <cmath>

#include "ops/disentangled/disentangled_partials.h"

namespace gradmill {
namespace {

// transformers' make_log_bucket_position(), step by step in fp32, because the ceiling makes every rounding visible.
int64_t log_bucket(int64_t distance, int64_t size, int64_t max_distance) {
  const int64_t middle = size / 2, length = std::abs(distance);
  if (length <= middle) return distance;
  const float ratio = static_cast<float>(length) / static_cast<float>(middle);
  const auto limit = static_cast<float>(static_cast<double>(max_distance - 1) / static_cast<double>(middle));
  const float bucket = std::ceil(std::log(ratio) / std::log(limit) * static_cast<float>(middle - 1));
  const int64_t far = static_cast<int64_t>(bucket) + middle;
  return distance < 0 ? -far : far;
}

void validate(const DisentangledAttentionArgs& args) {
  const AttentionArgs& content = args.content;
  assert(content.heads > 0 && content.heads == content.kv_heads);
  assert(content.head_dim > 0 && content.head_dim <= 256 && content.scale > 0);
  assert(content.mask.left < 0 && content.mask.right < 0);
  assert(content.q.shape.rank() == 2 && content.q.cols() == content.heads * content.head_dim);
  assert(content.k.shape == content.q.shape && content.v.shape == content.q.shape);
  assert(content.out.shape == content.q.shape && content.out.dtype == content.q.dtype);
  assert(content.k.dtype == content.q.dtype && content.v.dtype == content.q.dtype);
  assert(content.lse.dtype == DType::fp32 && content.lse.shape == Shape({content.heads, content.q.rows()}));
  assert(content.seq.cu_q.numel() == content.seq.max_seqs + 1 && content.seq.cu_kv.numel() == content.seq.max_seqs + 1);
  assert(args.pos_k.defined() || args.pos_q.defined());
  for (const TensorView& table : {args.pos_k, args.pos_q}) {
    assert(!table.defined() || (table.dtype == content.q.dtype && table.cols() == content.q.cols()));
    assert(!table.defined() || table.rows() == num_buckets(args));
    (void)table;
  }
  (void)content;
  assert(args.buckets.dtype == DType::int32 && args.buckets.numel() % 2 == 1);
  assert(args.buckets.numel() >= 2 * content.seq.max_len - 1);
}

double num_terms(const DisentangledAttentionArgs& args) {
  return 1 + double(args.pos_k.defined()) + double(args.pos_q.defined());
}

// The number of pairs of a query and a key, over all heads.
double num_pairs(const AttentionArgs& args) {
  return double(args.heads) * double(args.q.rows()) * double(std::min(args.seq.max_len, args.q.rows()));
}

double table_bytes(const DisentangledAttentionArgs& args) { return double(args.pos_k.bytes() + args.pos_q.bytes()); }

}  // namespace

std::vector<int32_t> bucket_table(const DistanceBuckets& buckets, int64_t max_len) {
  assert(buckets.size > 0 && max_len > 0);
  assert(!buckets.log_buckets || (buckets.size >= 2 && buckets.max_distance - 1 > buckets.size / 2));
  std::vector<int32_t> table;
  table.reserve(static_cast<size_t>(2 * max_len - 1));
  for (int64_t distance = 1 - max_len; distance < max_len; ++distance) {
    const int64_t bucket = buckets.log_buckets ? log_bucket(distance, buckets.size, buckets.max_distance) : distance;
    table.push_back(static_cast<int32_t>(std::clamp<int64_t>(bucket + buckets.size, 0, 2 * buckets.size - 1)));
  }
  return table;
}

void disentangled_attention_forward(ExecContext& ctx, const DisentangledAttentionArgs& args) {
  validate(args);
  const AttentionArgs& content = args.content;
  // One GEMM per term, and one of the weights with the values.
  const OpCost cost{.flops = 2 * double(content.head_dim) * num_pairs(content) * (num_terms(args) + 1),
                    .bytes = double(4 * content.q.bytes() + content.lse.bytes()) + table_bytes(args),
                    .matrix = true};
  run_op(ctx, "disentangled_attention_forward", content.q.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { disentangled_attention_forward<D, T>(ctx, args); });
}

void disentangled_attention_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args) {
  const DisentangledAttentionArgs& forward = args.forward;
  const AttentionArgs& content = forward.content;
  validate(forward);
  assert(args.dout.shape == content.q.shape && args.dq.shape == content.q.shape);
  assert(args.dk.shape == content.q.shape && args.dv.shape == content.q.shape);
  assert(args.dout.dtype == content.q.dtype && args.dq.dtype == content.q.dtype);
  assert(args.dk.dtype == content.q.dtype && args.dv.dtype == content.q.dtype);
  assert(args.dpos_k.shape == forward.pos_k.shape && args.dpos_q.shape == forward.pos_q.shape);
  const ArenaScope scope(ctx.scratch);
  const TensorView workspace =
      ctx.alloc_scratch({disentangled_workspace(ctx, args)}, DType::fp32, "disentangled attention workspace");
  // For each term the score and the gradients of both factors; in addition the gradients of weights and values.
  const OpCost cost{.flops = 2 * double(content.head_dim) * num_pairs(content) * (3 * num_terms(forward) + 2),
                    .bytes = double(8 * content.q.bytes() + content.lse.bytes()) + 2 * table_bytes(forward),
                    .matrix = true};
  run_op(ctx, "disentangled_attention_backward", content.q.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { disentangled_attention_backward<D, T>(ctx, args, workspace); });
}

int64_t disentangled_workspace(const ExecContext& ctx, const DisentangledAttentionGradArgs& args) {
  const AttentionArgs& content = args.forward.content;
  if (ctx.device.kind == DeviceKind::cpu) {
    const int64_t accumulators = content.q.dtype == DType::fp32 ? 0 : 2 * content.q.numel();
    return accumulators + task_chunks(content) * 2 * num_buckets(args.forward) * content.q.cols();
  }
  return content.lse.numel() + DiagonalTasks(content, ctx.device).partials(content);
}

}  // namespace gradmill
