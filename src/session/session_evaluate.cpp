// SPDX-License-Identifier: Apache-2.0
// Session: evaluation of language models and classifiers.
#include <algorithm>
#include <cassert>

#include "session/session.h"

namespace gradmill {

void Session::eval_ops(const Inputs& inputs) {
  Pass pass = make_pass(inputs, false);
  if (is_classifier()) {
    return model_.class_logits(pass, inputs.model_inputs(), class_logits_.slice_cols(0, model_.spec().labels));
  }
  model_.evaluate(pass, inputs.model_inputs(), {.values = inputs.targets, .sequence_losses = sequence_losses_});
}

double Session::eval_micro(const MicroBatch& batch) {
  assert(!is_classifier());
  enter(Phase::eval);
  const int quarters = upload(eval_inputs_, batch);
  upload_value(&ctx_.scalars->loss_sum, 0.0);
  run(Sequence::eval, quarters, eval_inputs_.seq.dense, [&] { eval_ops(quarters_of(eval_inputs_, quarters)); });
  return read_scalars().loss_sum;
}

std::vector<Session::SequenceLoss> Session::eval_sequences(const MicroBatch& batch) {
  assert(sequence_losses_.defined());
  eval_micro(batch);
  const std::vector<float> sums = read(sequence_losses_);
  std::vector<SequenceLoss> losses(static_cast<size_t>(batch.num_seqs));
  for (size_t s = 0; s < losses.size(); ++s) {
    const auto targets = std::span(batch.targets)
                             .subspan(static_cast<size_t>(batch.cu_seqlens[s]),
                                      static_cast<size_t>(batch.cu_seqlens[s + 1] - batch.cu_seqlens[s]));
    losses[s] = {double(sums[s]), std::ssize(targets) - std::ranges::count(targets, kIgnoredTarget)};
  }
  return losses;
}

void Session::rehearse_evaluation(const MicroBatch& batch) {
  if (options_.device.kind == DeviceKind::cpu) return;
  constexpr int kRuns = 2;  // sequences are captured in their second run
  MicroBatch one_token = batch;
  std::fill(one_token.cu_seqlens.begin() + 1, one_token.cu_seqlens.end(), 1);
  enter(Phase::eval);
  upload(eval_inputs_, one_token);
  eval_inputs_.seq.dense = false;
  for (int quarters = options_.eval_tokens > 0 ? 1 : kQuarters; quarters <= kQuarters; ++quarters) {
    for (int i = 0; i < kRuns; ++i) {
      run(Sequence::eval, quarters, false, [&] { eval_ops(quarters_of(eval_inputs_, quarters)); });
    }
  }
  runtime_->wait(runtime_->read_later(ctx_.scalars, sizeof(StepScalars)));
}

std::span<const float> Session::class_logits(const MicroBatch& batch) {
  assert(is_classifier());
  enter(Phase::eval);
  const int quarters = upload(eval_inputs_, batch);
  run(Sequence::eval, quarters, eval_inputs_.seq.dense, [&] { eval_ops(quarters_of(eval_inputs_, quarters)); });
  host_logits_ = read(class_logits_);
  const auto labels = static_cast<size_t>(model_.spec().labels), stride = static_cast<size_t>(class_logits_.cols());
  for (size_t s = 1; s < static_cast<size_t>(batch.num_seqs); ++s) {
    std::copy_n(host_logits_.begin() + static_cast<ptrdiff_t>(s * stride), labels,
                host_logits_.begin() + static_cast<ptrdiff_t>(s * labels));
  }
  return std::span(host_logits_).first(static_cast<size_t>(batch.num_seqs) * labels);
}

}  // namespace gradmill
