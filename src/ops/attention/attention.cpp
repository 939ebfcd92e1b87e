// SPDX-License-Identifier: Apache-2.0
// Attention: validation, cost, scratch and dispatch.
#include "ops/attention/attention.h"

#include <algorithm>

#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_math.h"

namespace gradmill {
namespace {

void validate(const AttentionArgs& args) {
  assert(args.heads > 0 && args.kv_heads > 0 && args.heads % args.kv_heads == 0);
  assert(args.head_dim > 0 && args.head_dim <= 256);
  assert(args.q.shape.rank() == 2 && args.q.cols() == args.heads * args.head_dim);
  assert(args.k.shape.rank() == 2 && args.k.cols() == args.kv_heads * args.head_dim);
  assert(args.v.shape == args.k.shape && args.out.shape == args.q.shape);
  assert(args.k.dtype == args.q.dtype && args.v.dtype == args.q.dtype && args.out.dtype == args.q.dtype);
  assert(args.lse.dtype == DType::fp32 && args.lse.shape == Shape({args.heads, args.q.rows()}));
  assert(args.seq.cu_q.numel() == args.seq.max_seqs + 1 && args.seq.cu_kv.numel() == args.seq.max_seqs + 1);
  (void)args;
}

double square(double value) { return value * value; }

// The number of weights that the mask leaves, over all heads: the area of the band in as many sequences of max_len as
// fit.
double visible_weights(const AttentionArgs& args) {
  const double len = double(args.seq.max_len);
  const double seqs = std::min(double(args.seq.max_seqs), double(args.k.rows()) / len);
  if (seqs == 0) return 0;
  const double queries = std::min(len, double(args.q.rows()) / seqs);
  const double left = args.mask.left < 0 ? len : std::min(len, double(args.mask.left));
  const double right = args.mask.right < 0 ? len : std::min(len, double(args.mask.right));
  // Queries have the positions len - queries .. len. The parts above and below the band are triangles, or parts of
  // triangles.
  const double over = square(std::max(0.0, queries - right)) / 2;
  const double under = (square(std::max(0.0, len - left)) - square(std::max(0.0, len - queries - left))) / 2;
  return double(args.heads) * seqs * (queries * len - over - under);
}

constexpr int64_t kMiB = int64_t{1} << 20;

// Upper bounds for a GPU that is not present. cuDNN's backward keeps, in fp32 except for the last: the sums of dout *
// out, the gradient of q, and, with grouped heads, the gradients of k and v for every query head.
int64_t backward_bound(const AttentionGradArgs& args) {
  const AttentionArgs& forward = args.forward;
  const int64_t rows = forward.q.rows(), size = static_cast<int64_t>(size_of(forward.q.dtype));
  const int64_t group = forward.heads / forward.kv_heads, sums = rows * forward.heads * 4;
  if (forward.seq.dense) {
    const int64_t dq = rows * forward.q.cols() * 4, dkv = group > 1 ? 2 * rows * forward.q.cols() * size : 0;
    return sums + dq + dkv + 16 * kMiB;
  }
  // The accumulators of ragged problems are as wide as the rows that receive the result. Above a limit our own kernel
  // is used.
  const int64_t wide = rows * args.dq.row_stride * 4 * (group > 1 ? 1 + 2 * group : 1);
  const int64_t limit = 64 * kMiB + 8 * rows * (forward.q.cols() + 2 * forward.k.cols()) * size;
  return sums + std::min(wide, limit) + 16 * kMiB;
}

int64_t bound(const ExecContext& ctx, const AttentionArgs& args) {
  if (ctx.kernels.attention == AttentionBackend::math && math_supports(args)) return math_workspace(args, false);
  return ctx.kernels.attention == AttentionBackend::flash ? 0 : 4 * kMiB;
}
int64_t bound(const ExecContext& ctx, const AttentionGradArgs& args) {
  if (ctx.kernels.attention == AttentionBackend::math && math_supports(args.forward)) {
    return math_workspace(args.forward, true);
  }
  return backward_bound(args);
}

template <class Args>
TensorView gpu_workspace(ExecContext& ctx, const Args& args) {
  int64_t bytes = 0;
  if constexpr (kHasCuda) {
    if (ctx.cuda != nullptr) bytes = attention_workspace(ctx, args);
  }
  if (ctx.cuda == nullptr) bytes = bound(ctx, args);
  return bytes == 0 ? TensorView() : ctx.alloc_scratch({bytes}, DType::int8, "attention workspace");
}

TensorView forward_workspace(ExecContext& ctx, const AttentionArgs& args) {
  return ctx.device.kind == DeviceKind::cuda ? gpu_workspace(ctx, args) : TensorView();
}

TensorView backward_workspace(ExecContext& ctx, const AttentionGradArgs& args) {
  if (ctx.device.kind == DeviceKind::cuda) return gpu_workspace(ctx, args);
  const TensorView& k = args.forward.k;
  if (k.dtype == DType::fp32) return {};
  return ctx.alloc_scratch({2, k.rows(), k.cols()}, DType::fp32, "attention dk, dv");
}

}  // namespace

void attention_forward(ExecContext& ctx, const AttentionArgs& args) {
  validate(args);
  const ArenaScope scope(ctx.scratch);
  const TensorView workspace = forward_workspace(ctx, args);
  const OpCost cost{.flops = 4 * double(args.head_dim) * visible_weights(args),
                    .bytes = double(2 * args.q.bytes() + 2 * args.k.bytes() + args.lse.bytes()),
                    .matrix = true};
  run_op(ctx, "attention_forward", args.q.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { attention_forward<D, T>(ctx, args, workspace); });
}

AttentionOverwrites attention_backward_overwrites(ExecContext& ctx, const AttentionGradArgs& args) {
  if constexpr (kHasCuda) {
    if (ctx.cuda != nullptr && !ctx.dry) return attention_overwrites(ctx, args);
  }
  return AttentionOverwrites::nothing;
}

void attention_backward(ExecContext& ctx, const AttentionGradArgs& args) {
  const AttentionArgs& forward = args.forward;
  validate(forward);
  assert(args.dout.shape == forward.q.shape && args.dq.shape == forward.q.shape);
  assert(args.dk.shape == forward.k.shape && args.dv.shape == forward.k.shape);
  assert(args.dout.dtype == forward.q.dtype && args.dq.dtype == forward.q.dtype);
  assert(args.dk.dtype == forward.q.dtype && args.dv.dtype == forward.q.dtype);
  const ArenaScope scope(ctx.scratch);
  const TensorView workspace = backward_workspace(ctx, args);
  // Five GEMMs: the logits again, and the gradients of weights, values, queries and keys.
  const OpCost cost{.flops = 10 * double(forward.head_dim) * visible_weights(forward),
                    .bytes = double(4 * forward.q.bytes() + 4 * forward.k.bytes() + forward.lse.bytes()),
                    .matrix = true};
  run_op(ctx, "attention_backward", forward.q.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { attention_backward<D, T>(ctx, args, workspace); });
}

}  // namespace gradmill
