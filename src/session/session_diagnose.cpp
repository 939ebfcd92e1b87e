// SPDX-License-Identifier: Apache-2.0
// Session: finds where a step that was not finite went wrong.
#include <algorithm>
#include <cmath>

#include "ops/find_non_finite.h"
#include "ops/transfer.h"
#include "session/session.h"

namespace gradmill {

Session::NonFinite Session::find_non_finite_activation() {
  NonFinite found;
  const ArenaScope scope(ctx_.scratch);
  const TensorView row = ctx_.alloc_scratch({1}, DType::int32, "row");
  Pass pass = make_pass(train_inputs_, false);
  model_.visit_activations(pass, train_inputs_.model_inputs(), [&](const std::string& where, const TensorView& x) {
    find_non_finite(ctx_, x, row);
    int32_t first = -1;
    if (!ctx_.dry && found.row < 0) copy_to_host(ctx_, &first, row);
    if (first >= 0) found = {where, first};
  });
  return found;
}

std::string Session::diagnose(const StepBatch& batch) {
  int64_t seqs_before = 0;
  for (const MicroBatch& micro : batch.micro) {
    enter(Phase::diagnose);
    upload(train_inputs_, micro);
    const NonFinite found = find_non_finite_activation();
    if (found.row >= 0) {
      const auto ends = std::span(micro.cu_seqlens).subspan(1, static_cast<size_t>(micro.num_seqs));
      const int64_t sample = seqs_before + (std::ranges::upper_bound(ends, found.row) - ends.begin());
      return fmt::format("the first activation that is not finite is in '{}', sample {} of the batch", found.where,
                         sample);
    }
    seqs_before += micro.num_seqs;
  }
  for (ParamId id = static_cast<ParamId>(model_.params().size()); id-- > 0;) {
    if (!grads_->wants(id)) continue;
    const std::vector<float> grad = read(grads_->view(id));
    if (!std::all_of(grad.begin(), grad.end(), [](float value) { return std::isfinite(value); }))
      return fmt::format("activations are finite; the gradient of '{}' is not", model_.params().spec(id).name);
  }
  return "all activations and gradients are finite, but their norm or the loss overflows";
}

}  // namespace gradmill
