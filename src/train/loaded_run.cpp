// SPDX-License-Identifier: Apache-2.0
#include "train/loaded_run.h"

#include <algorithm>

#include "checkpoint/store.h"
#include "config/loader.h"
#include "train/model_folder.h"
#include "train/run_folder.h"
#include "train/run_options.h"

namespace gradmill {
namespace {

Checkpoint open_checkpoint(const std::filesystem::path& path) {
  const ResumePoint point = resume_point(path);
  const CheckpointStore store(point.run_folder);
  if (point.step) return store.open(*point.step);
  std::optional<Checkpoint> newest = store.newest();
  if (!newest)
    throw data_error(fmt::format("'{}' has no checkpoint that can be read", path.string()), "train the run again");
  const int64_t best = state_from_json(newest->state_json()).best_step;
  const std::vector<int64_t> steps = store.steps();
  const bool has_best = best > 0 && std::find(steps.begin(), steps.end(), best) != steps.end();
  return has_best && best != newest->step() ? store.open(best) : std::move(*newest);
}

RunConfig read_config(const std::filesystem::path& path) {
  ConfigRequest request;
  request.files = {resume_point(path).run_folder / kConfigFile};
  return load_config(request).config;
}

}  // namespace

LoadedRun::LoadedRun(const std::filesystem::path& path) : config_(read_config(path)) {
  const Checkpoint checkpoint = open_checkpoint(path);
  state_ = state_from_json(checkpoint.state_json());
  vocab_ = CharVocab::from_text(state_.vocabulary);
  model_ = std::make_unique<Transformer>(model_spec(config_, vocab_.size()));
  session_ = std::make_unique<Session>(*model_, session_options(config_));
  load_session(checkpoint, *model_, *session_, progress_of(state_));
  // Averages, where a run keeps them, are what it is judged by.
  if (session_->has_average()) session_->exchange_average();
}

LoadedRun::Evaluation LoadedRun::evaluate_validation() {
  return evaluate(load_run_data(config_, &vocab_).tokens.validation);
}

LoadedRun::Evaluation LoadedRun::evaluate_text(const std::string& dataset) {
  return evaluate(vocab_.encode(load_corpus({.dataset = dataset}).text));
}

LoadedRun::Evaluation LoadedRun::evaluate(std::span<const int32_t> tokens) {
  Evaluation result;
  for (const MicroBatch& batch : eval_batches(tokens, session_options(config_).eval_seqs, config_.model.context, 0)) {
    result.loss += session_->eval_micro(batch);
    result.tokens += batch.num_targets;
  }
  result.loss /= double(result.tokens);
  return result;
}

}  // namespace gradmill
