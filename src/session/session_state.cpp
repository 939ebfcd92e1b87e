// SPDX-License-Identifier: Apache-2.0
// Session: weights, averages and the optimiser's state in the form of checkpoints.
#include <algorithm>
#include <cassert>
#include <iterator>

#include "ops/ema.h"
#include "ops/transfer.h"
#include "session/host_copies.h"
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

std::shared_ptr<const FrozenWeights> Session::share_frozen() {
  assert(options_.frozen_beside_slab && !weights_->adapters_merged());
  read_scalars();  // other sessions do not wait for what this one still writes
  return std::make_shared<FrozenWeights>(FrozenWeights{.device = options_.device,
                                                       .dtype = options_.dtype,
                                                       .weights = weights_->share_frozen(),
                                                       .bytes = plan_.frozen.bytes,
                                                       .memory = frozen_memory_});
}

void Session::reset(uint64_t seed, const AdamWOptions& adamw, float dropout) {
  assert(!options_.inference && !weights_->adapters_merged());
  if ((dropout > 0) != (options_.dropout > 0)) {
    throw usage_error(
        fmt::format("a session with a dropout of {:g} cannot be reset to one of {:g}", options_.dropout, dropout),
        "make a new session to turn dropout on or off");
  }
  options_.seed = seed;
  options_.adamw = adamw;
  options_.dropout = dropout;
  optimizer_->reset(ctx_, adamw);
  write_first_scalars();
  enter(Phase::load);
  weights_->initialise_trained(ctx_, seed);
  if (has_average()) copy_on_device(ctx_, average_, weights_->flat_master());
  sequence_.clear();
  num_cached_ = 0;
}

std::vector<StateTensor> Session::state() const {
  std::vector<StateTensor> tensors = {{"masters", weights_->flat_master()}};
  if (optimizer_) std::ranges::copy(optimizer_->state(), std::back_inserter(tensors));
  if (has_average()) tensors.push_back({kAverageName, average_});
  return tensors;
}

size_t Session::state_bytes() const {
  size_t bytes = 0;
  for (const StateTensor& tensor : state()) bytes += tensor.view.bytes();
  return bytes;
}

Session::HostState Session::host_state(bool with_values) {
  HostState host;
  std::vector<StateTensor> tensors = state();
  if (options_.device.kind != DeviceKind::cpu) host.copies = move_to_host(ctx_, tensors, with_values);
  host.masters = tensors.front().view;
  host.beside.assign(tensors.begin() + 1, tensors.end());
  return host;
}

void Session::restore(const HostState& host, const Progress& progress) {
  if (options_.device.kind != DeviceKind::cpu) {
    std::vector<StateTensor> tensors = {{"masters", host.masters}};
    std::ranges::copy(host.beside, std::back_inserter(tensors));
    copy_from_host(ctx_, state(), tensors);
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
