// SPDX-License-Identifier: Apache-2.0
#include "nn/lm_head.h"

#include <algorithm>

#include "core/seq_layout.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/sequence_sums.h"
#include "ops/soft_cap.h"

namespace gradmill {
namespace {

// Rows of a chunk when `rows` are cut evenly into chunks of at most `most`, in whole tiles: products with few or odd
// rows are slow.
int64_t even_chunk(int64_t rows, int64_t most) {
  const int64_t chunks = (rows + most - 1) / most;
  return std::min(rows, token_capacity((rows + chunks - 1) / chunks));
}

// Matrix units want rows that begin at multiples of 16 bytes, whatever the vocabulary.
int64_t padded(int64_t vocab) { return (vocab + 7) / 8 * 8; }

}  // namespace

// On a GPU products with an odd number of columns are slow even where their rows are aligned. Zeros after the weight
// make the number even. They give logits of 0 that nothing reads; nothing writes their gradients, so these stay 0.
Linear::Padded LmHead::pad(Pass& pass) const {
  const int64_t vocab = options_.vocab, size = padded(vocab);
  return pass.ctx.device.kind == DeviceKind::cpu || vocab == size ? Linear::Padded{} : linear_.pad(pass, size);
}

LmHead::LmHead(ParamTable& params, const Options& options) : options_(options) {
  if (options.transform) {
    MlmTransform::Options transform = options.transform_options;
    transform.name = options.name;
    transform.width = options.width;
    transform.init_std = options.init_std;
    transform_ = MlmTransform(params, transform);
  }
  linear_ = Linear(params, {.name = options.name,
                            .in = options.width,
                            .slices = {{"logits", options.vocab}},
                            .bias = options.bias,
                            .init_std = options.init_std,
                            .tied_weight = options.tied_weight});
}

// Every chunk adds to the whole weight's gradient, so chunks should be large. They take a sixteenth of the memory at
// most.
int64_t LmHead::chunk_rows(const ExecContext& ctx, DType dtype, int64_t rows) const {
  if (options_.chunk_rows > 0) return std::min(options_.chunk_rows, rows);
  const auto share = static_cast<int64_t>(ctx.device.memory_bytes / 16 / size_of(dtype));
  const int64_t most = ctx.device.kind == DeviceKind::cpu ? int64_t{1} << 28 : (int64_t{1} << 31) - 1;
  return even_chunk(rows, std::max(kTokenPadding, std::min(share, most) / options_.vocab));
}

void LmHead::logits(Pass& pass, const TensorView& x, const TensorView& out) const {
  const NameScope name(pass.ctx, "head");
  const ArenaScope scope(pass.ctx.scratch);
  TensorView input = x;
  if (options_.transform) input = transform_.forward(pass, x).y;
  linear_.forward(pass, input, out);
  if (options_.softcap > 0) soft_cap_forward(pass.ctx, {.x = out, .y = out, .cap = options_.softcap});
}

void LmHead::loss(Pass& pass, const TensorView& x, const Targets& targets, const TensorView& dx) const {
  const NameScope name(pass.ctx, "head");
  const ArenaScope scope(pass.ctx.scratch);
  if (!options_.transform) return chunked_loss(pass, x, targets, dx);
  const MlmTransform::Saved saved = transform_.forward(pass, x);
  chunked_loss(pass, saved.y, targets, dx);
  if (pass.training()) transform_.backward(pass, x, saved, dx);
}

void LmHead::chunked_loss(Pass& pass, const TensorView& x, const Targets& targets, const TensorView& dx) const {
  const ArenaScope scope(pass.ctx.scratch);
  const int64_t chunk = chunk_rows(pass.ctx, pass.weights.dtype(), x.rows());
  const int64_t vocab = options_.vocab;
  const bool capped = options_.softcap > 0, weighted = targets.weights.defined();
  const Linear::Padded head = pad(pass);
  const TensorView buffer = pass.scratch({chunk, padded(vocab)}, "logits");
  const TensorView capped_buffer = capped ? pass.scratch({chunk, padded(vocab)}, "capped logits") : buffer;
  const TensorView losses = pass.ctx.alloc_scratch({x.rows()}, DType::fp32, "losses");
  for (int64_t begin = 0; begin < x.rows(); begin += chunk) {
    const int64_t end = std::min(begin + chunk, x.rows());
    const TensorView rows = x.slice_rows(begin, end), wide_chunk = buffer.slice_rows(0, end - begin);
    const TensorView logits_chunk = wide_chunk.slice_cols(0, vocab);
    const TensorView final_chunk = capped_buffer.slice_rows(0, end - begin).slice_cols(0, vocab);
    linear_.forward(pass, head, rows, wide_chunk);
    if (capped) soft_cap_forward(pass.ctx, {.x = logits_chunk, .y = final_chunk, .cap = options_.softcap});
    cross_entropy(pass.ctx, {.logits = final_chunk,
                             .targets = targets.values.slice_rows(begin, end),
                             .weights = weighted ? targets.weights.slice_rows(begin, end) : TensorView{},
                             .losses = losses.slice_rows(begin, end),
                             .write_grad = pass.training()});
    if (!pass.training()) continue;
    if (capped) {
      soft_cap_backward(pass.ctx, {.x = logits_chunk, .dy = final_chunk, .dx = logits_chunk, .cap = options_.softcap});
    }
    linear_.backward_weight(pass, rows, logits_chunk);
    linear_.backward_bias(pass, logits_chunk);
    linear_.backward_input(pass, head, wide_chunk, dx.slice_rows(begin, end));
  }
  add_loss_sum(pass.ctx, losses);
  if (!targets.sequence_losses.defined()) return;
  sequence_sums(pass.ctx, {.values = losses, .cu = pass.seq.cu_q, .sums = targets.sequence_losses});
}

}  // namespace gradmill
