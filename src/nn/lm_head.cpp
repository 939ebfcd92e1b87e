// SPDX-License-Identifier: Apache-2.0
#include "nn/lm_head.h"

#include <algorithm>

#include "core/seq_layout.h"
#include "ops/cross_entropy.h"
#include "ops/soft_cap.h"

namespace gradmill {
namespace {

// Rows a chunk of at most so many has when `rows` are cut evenly, in whole tiles: products with few or odd rows are
// slow.
int64_t even_chunk(int64_t rows, int64_t most) {
  const int64_t chunks = (rows + most - 1) / most;
  return std::min(rows, token_capacity((rows + chunks - 1) / chunks));
}

}  // namespace

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

void LmHead::loss(Pass& pass, const TensorView& x, const TensorView& targets, const TensorView& dx) const {
  const NameScope name(pass.ctx, "head");
  const ArenaScope scope(pass.ctx.scratch);
  if (!options_.transform) return chunked_loss(pass, x, targets, dx);
  const MlmTransform::Saved saved = transform_.forward(pass, x);
  chunked_loss(pass, saved.y, targets, dx);
  if (pass.training()) transform_.backward(pass, x, saved, dx);
}

void LmHead::chunked_loss(Pass& pass, const TensorView& x, const TensorView& targets, const TensorView& dx) const {
  const ArenaScope scope(pass.ctx.scratch);
  const int64_t chunk = chunk_rows(pass.ctx, pass.weights.dtype(), x.rows());
  // Rows that begin at multiples of 16 bytes, whatever the vocabulary: matrix units want that.
  const int64_t stride = (options_.vocab + 7) / 8 * 8;
  const TensorView logits_buffer = pass.scratch({chunk, stride}, "logits").slice_cols(0, options_.vocab);
  const bool capped = options_.softcap > 0;
  const TensorView capped_buffer =
      capped ? pass.scratch({chunk, stride}, "capped logits").slice_cols(0, options_.vocab) : logits_buffer;
  const TensorView losses = pass.ctx.alloc_scratch({x.rows()}, DType::fp32, "losses");
  for (int64_t begin = 0; begin < x.rows(); begin += chunk) {
    const int64_t end = std::min(begin + chunk, x.rows());
    const TensorView logits_chunk = logits_buffer.slice_rows(0, end - begin);
    const Operand rows(x.slice_rows(begin, end));
    const TensorView final_chunk = capped_buffer.slice_rows(0, end - begin);
    linear_.forward(pass, rows, logits_chunk);
    if (capped) soft_cap_forward(pass.ctx, {.x = logits_chunk, .y = final_chunk, .cap = options_.softcap});
    cross_entropy(pass.ctx, {.logits = final_chunk,
                             .targets = targets.slice_rows(begin, end),
                             .losses = losses.slice_rows(begin, end),
                             .write_grad = pass.training()});
    if (!pass.training()) continue;
    if (capped) {
      soft_cap_backward(pass.ctx, {.x = logits_chunk, .dy = final_chunk, .dx = logits_chunk, .cap = options_.softcap});
    }
    linear_.backward_weight(pass, rows, logits_chunk);
    linear_.backward_bias(pass, logits_chunk);
    linear_.backward_input(pass, logits_chunk, dx.slice_rows(begin, end));
  }
  add_loss_sum(pass.ctx, losses);
}

}  // namespace gradmill
