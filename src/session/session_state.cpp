// SPDX-License-Identifier: Apache-2.0
// Session: weights, moments and averages in the form of checkpoints.
#include <cassert>

#include "ops/ema.h"
#include "ops/transfer.h"
#include "session/session.h"

namespace gradmill {

void Session::exchange_average() {
  assert(has_average());
  exchange(ctx_, weights_->flat_master(), average_);
  enter(Phase::load);
  weights_->refresh_compute(ctx_);
  num_cached_ = 0;
}

void Session::write_weights(const std::function<void(ExecContext&, Weights&)>& fill) {
  enter(Phase::load);
  fill(ctx_, *weights_);
  if (has_average()) copy_on_device(ctx_, average_, weights_->flat_master());
  num_cached_ = 0;
}

Session::HostState Session::host_state(bool with_values) {
  HostState state;
  std::vector<StateTensor> tensors = {{"masters", weights_->flat_master()}};
  if (optimizer_) {
    tensors.push_back({"adamw.first_moments", optimizer_->first_moments()});
    tensors.push_back({"adamw.second_moments", optimizer_->second_moments()});
  }
  if (has_average()) tensors.push_back({kAverageName, average_});
  if (options_.device.kind != DeviceKind::cpu) {
    const size_t bytes = align_up(weights_->flat_master().bytes());
    state.copies = Storage(tensors.size() * bytes);
    for (size_t i = 0; i < tensors.size(); ++i) {
      TensorView& view = tensors[i].view;
      std::byte* copy = state.copies.bytes().data() + i * bytes;
      if (with_values) copy_to_host(ctx_, copy, view);
      view.data = copy;
    }
  }
  state.masters = tensors.front().view;
  state.optimizer.assign(tensors.begin() + 1, tensors.end());
  return state;
}

void Session::restore(const HostState& state, const Progress& progress) {
  if (options_.device.kind != DeviceKind::cpu) {
    copy_to_device(ctx_, weights_->flat_master(), state.masters.data);
    if (optimizer_) {
      copy_to_device(ctx_, optimizer_->first_moments(), state.optimizer[0].view.data);
      copy_to_device(ctx_, optimizer_->second_moments(), state.optimizer[1].view.data);
    }
    if (has_average()) copy_to_device(ctx_, average_, state.optimizer[2].view.data);
  }
  // A run may be resumed in another precision, where the old loss scale has no meaning.
  const bool scaled = options_.loss_scaling.growth_steps > 0 && progress.loss_scale > 1;
  upload_value(&ctx_.scalars->updates, progress.updates);
  upload_value(&ctx_.scalars->loss_scale, scaled ? progress.loss_scale : options_.loss_scaling.initial);
  upload_value(&ctx_.scalars->scale_streak, progress.scale_streak);
  enter(Phase::load);
  weights_->refresh_compute(ctx_);
  num_cached_ = 0;
}

}  // namespace gradmill
