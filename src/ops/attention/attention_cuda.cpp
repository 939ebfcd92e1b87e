// SPDX-License-Identifier: Apache-2.0
// Attention on a GPU: chooses the implementation, and calls cuDNN.
#include "ops/attention/attention_cuda.h"

#include "cuda/engine.h"
#include "cuda/sdpa.h"
#include "ops/attention/attention_flash.h"
#include "ops/attention/attention_hopper.h"
#include "ops/attention/attention_layout.h"
#include "ops/attention/attention_math.h"

namespace gradmill {
namespace {

using cuda::SdpaBuffers;
using cuda::SdpaProblem;

// A limit that no pair of positions can reach counts as none, because full and causal masks have their own kernels.
int64_t reachable(int64_t limit, int64_t len) { return limit >= len - 1 ? -1 : limit; }

SdpaProblem forward_problem(ExecContext& ctx, const AttentionArgs& args) {
  const int64_t len = args.seq.max_len;
  // Assumes that the gradients of q, k and v are one packed buffer like v's, and that dout is laid out like out.
  // Otherwise the backward is planned again.
  return {.dtype = args.q.dtype,
          .seqs = args.seq.max_seqs,
          .len = len,
          .heads = args.heads,
          .kv_heads = args.kv_heads,
          .head_dim = args.head_dim,
          .rows = args.q.rows(),
          .ragged = !args.seq.dense || !ctx.cuda->sdpa().takes_dense(len),
          .q_stride = args.q.row_stride,
          .k_stride = args.k.row_stride,
          .v_stride = args.v.row_stride,
          .out_stride = args.out.row_stride,
          .dout_stride = args.out.row_stride,
          .dq_stride = args.v.row_stride,
          .dk_stride = args.v.row_stride,
          .dv_stride = args.v.row_stride,
          .left = reachable(args.mask.left, len),
          .right = args.mask.right == 0 ? 0 : reachable(args.mask.right, len),
          .scale = args.scale,
          .deterministic = ctx.kernels.deterministic};
}

SdpaProblem backward_problem(ExecContext& ctx, const AttentionGradArgs& args) {
  SdpaProblem problem = forward_problem(ctx, args.forward);
  problem.dout_stride = args.dout.row_stride;
  problem.dq_stride = args.dq.row_stride;
  problem.dk_stride = args.dk.row_stride;
  problem.dv_stride = args.dv.row_stride;
  return problem;
}

bool queries_are_keys(const AttentionArgs& args) {
  return args.seq.dense || (args.q.rows() == args.k.rows() && args.seq.cu_q.data == args.seq.cu_kv.data);
}

std::string cudnn_refuses(ExecContext& ctx, const AttentionArgs& args) {
  if (args.seq.max_seqs == 0) return "there are no sequences";
  if (!queries_are_keys(args)) return "queries are not keys";
  if (args.dropout) return "cuDNN's dropout differs from ours";
  for (const TensorView* view : {&args.q, &args.k, &args.v, &args.out}) {
    if (reinterpret_cast<uintptr_t>(view->data) % 16 != 0) return "cuDNN requires rows at multiples of 16 bytes";
  }
  return ctx.cuda->sdpa().refuses(forward_problem(ctx, args));
}

// Notes once which implementation computes the op. Generation with a cache always uses our kernels, so it needs no
// note.
void note_choice(ExecContext& ctx, const AttentionArgs& args, const AttentionChoice& choice) {
  if (!queries_are_keys(args) || args.seq.max_seqs == 0) return;
  const char* const own = hopper_supports(ctx, args) ? "our kernels for Hopper" : "our flash kernel";
  const char* const chosen = choice.backend == AttentionBackend::cudnn  ? "cuDNN"
                             : choice.backend == AttentionBackend::math ? "a matrix of all scores"
                                                                        : own;
  ctx.cuda->note_once(fmt::format("attention: {} heads of {}{}{} use {}{}{}", args.heads, args.head_dim,
                                  args.dropout ? " with dropout" : "",
                                  args.seq.dense ? "" : " in sequences of mixed lengths", chosen,
                                  choice.reason.empty() ? "" : ": ", choice.reason));
}

// Cuts the workspace into aligned pieces. Without memory it only counts their bytes.
class Pieces {
 public:
  explicit Pieces(void* memory = nullptr) : at_(static_cast<std::byte*>(memory)) {}
  template <class V>
  V* take(int64_t count) {
    V* piece = at_ == nullptr ? nullptr : reinterpret_cast<V*>(at_ + used_);
    used_ += static_cast<int64_t>(align_up(static_cast<size_t>(count) * sizeof(V)));
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* at_;
  int64_t used_ = 0;
};

// Tables for a ragged problem, at the start of the workspace, before cuDNN's own part.
RaggedTables cut_tables(const SdpaProblem& problem, bool backward, Pieces& pieces, SdpaBuffers& buffers) {
  RaggedTables tables;
  if (!problem.ragged) return tables;
  tables.lens = buffers.lens = pieces.take<int32_t>(problem.seqs);
  const auto add = [&](int64_t*& offsets, int64_t stride) {
    offsets = pieces.take<int64_t>(problem.seqs + 1);
    tables.offsets[tables.count++] = {offsets, stride};
  };
  add(buffers.offsets.q, problem.q_stride);
  add(buffers.offsets.k, problem.k_stride);
  add(buffers.offsets.v, problem.v_stride);
  add(buffers.offsets.out, problem.out_stride);
  add(buffers.offsets.lse, problem.heads);
  if (backward) {
    add(buffers.offsets.dout, problem.dout_stride);
    add(buffers.offsets.dq, problem.dq_stride);
    add(buffers.offsets.dk, problem.dk_stride);
    add(buffers.offsets.dv, problem.dv_stride);
  }
  return tables;
}

int64_t cudnn_workspace(ExecContext& ctx, const SdpaProblem& problem, bool backward) {
  Pieces pieces;
  SdpaBuffers buffers;
  cut_tables(problem, backward, pieces, buffers);
  pieces.take<std::byte>(static_cast<int64_t>(ctx.cuda->sdpa().workspace_bytes(problem, backward)));
  return pieces.used();
}

SdpaBuffers cudnn_buffers(ExecContext& ctx, const AttentionArgs& args, const SdpaProblem& problem, bool backward,
                          const TensorView& workspace) {
  SdpaBuffers buffers{.q = args.q.data, .k = args.k.data, .v = args.v.data, .out = args.out.data, .lse = args.lse.data};
  Pieces pieces(workspace.data);
  const RaggedTables tables = cut_tables(problem, backward, pieces, buffers);
  buffers.workspace = pieces.take<std::byte>(0);
  if (problem.ragged) fill_ragged_tables(ctx, args.seq, tables);
  return buffers;
}

void cudnn_forward(ExecContext& ctx, const AttentionArgs& args, const TensorView& workspace) {
  const SdpaProblem problem = forward_problem(ctx, args);
  ctx.cuda->sdpa().forward(problem, cudnn_buffers(ctx, args, problem, false, workspace));
  clear_padding(ctx, args.seq, {args.out});
}

void cudnn_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& workspace) {
  const SdpaProblem problem = backward_problem(ctx, args);
  SdpaBuffers buffers = cudnn_buffers(ctx, args.forward, problem, true, workspace);
  buffers.dout = args.dout.data;
  buffers.dq = args.dq.data;
  buffers.dk = args.dk.data;
  buffers.dv = args.dv.data;
  ctx.cuda->sdpa().backward(problem, buffers);
  clear_padding(ctx, args.forward.seq, {args.dq, args.dk, args.dv});
}

// The scratch of our own kernels, in fp32 elements.
int64_t own_scratch(const ExecContext& ctx, const AttentionGradArgs& args) {
  return hopper_supports(ctx, args.forward) ? hopper_backward_scratch(args) : flash_backward_scratch(args);
}

template <class T>
void own_forward(ExecContext& ctx, const AttentionArgs& args) {
  if constexpr (!std::is_same_v<T, float>) {
    if (hopper_supports(ctx, args)) return hopper_forward<T>(ctx, args);
  }
  flash_forward<T>(ctx, args);
}

template <class T>
void own_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& workspace) {
  const int64_t count = own_scratch(ctx, args);
  const TensorView scratch = count == 0 ? TensorView() : TensorView(workspace.data, DType::fp32, {count});
  if constexpr (!std::is_same_v<T, float>) {
    if (hopper_supports(ctx, args.forward)) return hopper_backward<T>(ctx, args, scratch);
  }
  flash_backward<T>(ctx, args, scratch);
}

}  // namespace

AttentionChoice choose_attention(ExecContext& ctx, const AttentionArgs& args) {
  switch (ctx.kernels.attention) {
    case AttentionBackend::flash:
      return {AttentionBackend::flash, ""};
    case AttentionBackend::math:
      if (math_supports(args)) return {AttentionBackend::math, ""};
      return {AttentionBackend::flash, "the naive implementation requires sequences of equal length and no dropout"};
    case AttentionBackend::automatic:
      // As fast as cuDNN or faster, and deterministic.
      if (hopper_supports(ctx, args)) return {AttentionBackend::flash, ""};
      break;
    case AttentionBackend::cudnn:
      break;
  }
  std::string reason = cudnn_refuses(ctx, args);
  return {reason.empty() ? AttentionBackend::cudnn : AttentionBackend::flash, std::move(reason)};
}

int64_t attention_workspace(ExecContext& ctx, const AttentionArgs& args) {
  switch (choose_attention(ctx, args).backend) {
    case AttentionBackend::cudnn:
      return cudnn_workspace(ctx, forward_problem(ctx, args), false);
    case AttentionBackend::math:
      return math_workspace(args, false);
    default:
      return 0;
  }
}

int64_t attention_workspace(ExecContext& ctx, const AttentionGradArgs& args) {
  switch (choose_attention(ctx, args.forward).backend) {
    case AttentionBackend::cudnn:
      return cudnn_workspace(ctx, backward_problem(ctx, args), true);
    case AttentionBackend::math:
      return math_workspace(args.forward, true);
    default:
      return own_scratch(ctx, args) * static_cast<int64_t>(sizeof(float));
  }
}

// On Hopper, the kernel that writes the gradients of the values is the last to read values, and each block overwrites
// only what it has read itself. For short sequences, a block reads all of a head before it writes.
AttentionOverwrites attention_overwrites(ExecContext& ctx, const AttentionGradArgs& args) {
  if (choose_attention(ctx, args.forward).backend != AttentionBackend::flash) return AttentionOverwrites::nothing;
  if (hopper_supports(ctx, args.forward)) return AttentionOverwrites::values;
  return flash_backward_can_overwrite(ctx, args) ? AttentionOverwrites::everything : AttentionOverwrites::nothing;
}

template <Device D, class T>
void attention_forward(ExecContext& ctx, const AttentionArgs& args, const TensorView& workspace) {
  const AttentionChoice choice = choose_attention(ctx, args);
  note_choice(ctx, args, choice);
  switch (choice.backend) {
    case AttentionBackend::cudnn:
      return cudnn_forward(ctx, args, workspace);
    case AttentionBackend::math:
      return math_forward<T>(ctx, args, workspace);
    default:
      return own_forward<T>(ctx, args);
  }
}

template <Device D, class T>
void attention_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& workspace) {
  switch (choose_attention(ctx, args.forward).backend) {
    case AttentionBackend::cudnn:
      return cudnn_backward(ctx, args, workspace);
    case AttentionBackend::math:
      return math_backward<T>(ctx, args, workspace);
    default:
      return own_backward<T>(ctx, args, workspace);
  }
}

template void attention_forward<Device::cuda, float>(ExecContext&, const AttentionArgs&, const TensorView&);
template void attention_forward<Device::cuda, Bf16>(ExecContext&, const AttentionArgs&, const TensorView&);
template void attention_forward<Device::cuda, Fp16>(ExecContext&, const AttentionArgs&, const TensorView&);
template void attention_backward<Device::cuda, float>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void attention_backward<Device::cuda, Bf16>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void attention_backward<Device::cuda, Fp16>(ExecContext&, const AttentionGradArgs&, const TensorView&);

}  // namespace gradmill
