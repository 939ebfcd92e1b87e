// SPDX-License-Identifier: Apache-2.0
#include "nn/lm_head.h"

#include <algorithm>

#include "ops/cross_entropy.h"

namespace gradmill {

LmHead::LmHead(ParamTable& params, const Options& options) : options_(options) {
  linear_ = Linear(params, {.name = options.name,
                            .in = options.width,
                            .slices = {{"logits", options.vocab}},
                            .init_std = options.init_std,
                            .tied_weight = options.tied_weight});
  if (options_.chunk_rows == 0) options_.chunk_rows = std::max<int64_t>(128, (int64_t{1} << 28) / options.vocab);
}

void LmHead::loss(Pass& pass, const TensorView& x, const TensorView& targets, const TensorView& dx) const {
  const NameScope name(pass.ctx, "head");
  const ArenaScope scope(pass.ctx.scratch);
  const int64_t chunk = std::min(options_.chunk_rows, x.rows());
  const TensorView logits_buffer = pass.scratch({chunk, options_.vocab}, "logits");
  const TensorView losses = pass.ctx.alloc_scratch({x.rows()}, DType::fp32, "losses");
  for (int64_t begin = 0; begin < x.rows(); begin += chunk) {
    const int64_t end = std::min(begin + chunk, x.rows());
    const TensorView logits_chunk = logits_buffer.slice_rows(0, end - begin);
    const Operand rows(x.slice_rows(begin, end));
    linear_.forward(pass, rows, logits_chunk);
    cross_entropy(pass.ctx, {.logits = logits_chunk,
                             .targets = targets.slice_rows(begin, end),
                             .losses = losses.slice_rows(begin, end),
                             .write_grad = pass.training()});
    if (pass.training()) linear_.backward(pass, rows, logits_chunk, dx.slice_rows(begin, end));
  }
  add_loss_sum(pass.ctx, losses);
}

}  // namespace gradmill
