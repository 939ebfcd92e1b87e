// SPDX-License-Identifier: Apache-2.0
#include "nn/lm_head.h"

#include <algorithm>

#include "core/seq_layout.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/matmul/matmul.h"
#include "ops/sequence_sums.h"
#include "ops/soft_cap.h"
#include "ops/zero_extend.h"

namespace gradmill {
namespace {

// Rows a chunk of at most so many has when `rows` are cut evenly, in whole tiles: products with few or odd rows are
// slow.
int64_t even_chunk(int64_t rows, int64_t most) {
  const int64_t chunks = (rows + most - 1) / most;
  return std::min(rows, token_capacity((rows + chunks - 1) / chunks));
}

// Matrix units want rows that begin at multiples of 16 bytes, whatever the vocabulary.
int64_t padded(int64_t vocab) { return (vocab + 7) / 8 * 8; }

}  // namespace

// On a GPU products with an odd number of columns are slow even where their rows are aligned. Zeros below the weight
// make the number even: logits that nobody reads and that are 0, as their gradient then is, since no one writes it.
LmHead::Extended LmHead::extend(Pass& pass) const {
  const int64_t vocab = options_.vocab, size = padded(vocab);
  if (pass.ctx.device.kind == DeviceKind::cpu || vocab == size || !linear_.is_plain(pass)) return {};
  const auto extended = [&](ParamId id, const Shape& shape, std::string_view what) {
    const TensorView to = pass.scratch(shape, what);
    zero_extend(pass.ctx, {.from = pass.weights[id], .to = to});
    return to;
  };
  Extended head{.weight = extended(linear_.weight(), {size, options_.width}, "padded weight")};
  if (options_.bias) head.bias = extended(linear_.bias(), {size}, "padded bias");
  return head;
}

void LmHead::multiply(Pass& pass, const Extended& head, const TensorView& x, const TensorView& logits) const {
  if (!head.weight.defined()) return linear_.forward(pass, Operand(x), logits.slice_cols(0, options_.vocab));
  matmul(pass.ctx, {.a = x, .b = head.weight, .c = logits, .transpose_b = true, .bias = head.bias});
}

void LmHead::backward_input(Pass& pass, const Extended& head, const TensorView& dlogits, const TensorView& dx) const {
  if (!head.weight.defined()) return linear_.backward_input(pass, dlogits.slice_cols(0, options_.vocab), dx);
  matmul(pass.ctx, {.a = dlogits, .b = head.weight, .c = dx});
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

// Every chunk adds to the whole weight's gradient, so chunks should be large; but not take more than a sixteenth of the
// memory.
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
  linear_.forward(pass, Operand(input), out);
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
  const Extended head = extend(pass);
  const TensorView buffer = pass.scratch({chunk, padded(vocab)}, "logits");
  const TensorView capped_buffer = capped ? pass.scratch({chunk, padded(vocab)}, "capped logits") : buffer;
  const TensorView losses = pass.ctx.alloc_scratch({x.rows()}, DType::fp32, "losses");
  for (int64_t begin = 0; begin < x.rows(); begin += chunk) {
    const int64_t end = std::min(begin + chunk, x.rows());
    const TensorView rows = x.slice_rows(begin, end), wide_chunk = buffer.slice_rows(0, end - begin);
    const TensorView logits_chunk = wide_chunk.slice_cols(0, vocab);
    const TensorView final_chunk = capped_buffer.slice_rows(0, end - begin).slice_cols(0, vocab);
    multiply(pass, head, rows, wide_chunk);
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
    linear_.backward_weight(pass, Operand(rows), logits_chunk);
    linear_.backward_bias(pass, logits_chunk);
    backward_input(pass, head, wide_chunk, dx.slice_rows(begin, end));
  }
  add_loss_sum(pass.ctx, losses);
  if (!targets.sequence_losses.defined()) return;
  sequence_sums(pass.ctx, {.values = losses, .cu = pass.seq.cu_q, .sums = targets.sequence_losses});
}

}  // namespace gradmill
