// SPDX-License-Identifier: Apache-2.0
#include "metrics/trainer_state_writer.h"

#include <algorithm>
#include <cassert>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/error.h"
#include "files/output_file.h"

namespace gradmill {

using nlohmann::json;  // writes keys in order, and numbers that are not finite as null

namespace {

double number_of(const json& value) { return value.is_number() ? value.get<double>() : kUnknown; }

[[noreturn]] void throw_damaged(const std::filesystem::path& path) {
  throw data_error(fmt::format("'{}' is damaged", path.string()), "move it out of the run's folder and resume");
}

}  // namespace

struct TrainerStateWriter::State {
  struct Best {
    double metric;
    int64_t step;
    json checkpoint;  // its path, or null
  };

  int64_t step = 0;
  double epoch = 0;
  uint64_t tokens_seen = 0;
  std::vector<json> history;
  std::optional<Best> best;

  void load(const std::filesystem::path& path);
  void cut(int64_t last_step, const TrainerStateOptions& options);
  std::string text(const TrainerStateOptions& options) const;
};

void TrainerStateWriter::State::load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return;
  try {
    const json root = json::parse(file);
    step = root.at("global_step").get<int64_t>();
    epoch = number_of(root.at("epoch"));
    tokens_seen = root.at("num_input_tokens_seen").get<uint64_t>();
    history = root.at("log_history").get<std::vector<json>>();
    for (const json& entry : history) {
      if (!entry.at("step").is_number_integer() || !entry.contains("epoch")) throw_damaged(path);
    }
    if (!root.at("best_global_step").is_null()) {
      best = Best{number_of(root.at("best_metric")), root.at("best_global_step").get<int64_t>(),
                  root.at("best_model_checkpoint")};
    }
  } catch (const json::exception&) {
    throw_damaged(path);
  }
}

void TrainerStateWriter::State::cut(int64_t last_step, const TrainerStateOptions& options) {
  const auto is_gone = [last_step](const json& entry) {
    return entry["step"].get<int64_t>() > last_step || entry.contains("train_runtime");
  };
  std::erase_if(history, is_gone);
  if (step > last_step) {
    step = std::max<int64_t>(last_step, 0);
    epoch = 0;
    tokens_seen = 0;
    for (const json& entry : history) epoch = number_of(entry["epoch"]);
  }
  if (!best || best->step <= last_step) return;
  best.reset();  // the previous best checkpoint was the best before this one
  for (const json& entry : history) {
    const auto found = entry.find("eval_" + options.metric);
    if (found == entry.end() || !found->is_number()) continue;
    const double value = found->get<double>();
    if (!best || (options.larger_is_better ? value > best->metric : value < best->metric)) {
      best = Best{value, entry["step"].get<int64_t>(), {}};
    }
  }
}

std::string TrainerStateWriter::State::text(const TrainerStateOptions& options) const {
  const auto known = [](int64_t value) { return value == 0 ? json() : json(value); };
  const json root = {
      {"best_global_step", best ? json(best->step) : json()},
      {"best_metric", best ? json(best->metric) : json()},
      {"best_model_checkpoint", best ? best->checkpoint : json()},
      {"epoch", epoch},
      {"eval_steps", known(options.eval_steps)},
      {"global_step", step},
      {"is_hyper_param_search", false},
      {"is_local_process_zero", true},
      {"is_world_process_zero", true},
      {"log_history", history},
      {"logging_steps", options.logging_steps},
      {"max_steps", options.max_steps},
      {"num_input_tokens_seen", tokens_seen},
      {"num_train_epochs", options.num_train_epochs},
      {"save_steps", known(options.save_steps)},
      {"stateful_callbacks", json::object()},
      {"total_flos", options.flops_per_token * double(tokens_seen)},
      {"train_batch_size", options.train_batch_size},
      {"trial_name", nullptr},
      {"trial_params", nullptr},
  };
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

TrainerStateWriter::TrainerStateWriter(const std::filesystem::path& path, int64_t resume_step,
                                       const TrainerStateOptions& options)
    : path_(path), options_(options), state_(std::make_unique<State>()) {
  assert(options.logging_steps > 0);
  if (resume_step == kFreshRun) return;
  state_->load(path_);
  state_->cut(resume_step, options_);
}

TrainerStateWriter::~TrainerStateWriter() = default;

void TrainerStateWriter::step(const StepMetrics& metrics) {
  state_->step = metrics.step;
  state_->epoch = metrics.epoch;
  state_->tokens_seen = metrics.tokens_seen;
  if (metrics.step % options_.logging_steps != 0) return;
  state_->history.push_back({{"epoch", metrics.epoch},
                             {"grad_norm", metrics.grad_norm},
                             {"learning_rate", metrics.lr},
                             {"loss", metrics.loss},
                             {"step", metrics.step}});
}

void TrainerStateWriter::eval(const EvalMetrics& metrics) {
  json entry = {
      {"epoch", metrics.epoch}, {"eval_loss", metrics.loss}, {"eval_runtime", metrics.seconds}, {"step", metrics.step}};
  if (metrics.values.empty()) entry["eval_perplexity"] = metrics.perplexity;
  double judged = metrics.loss;
  for (const auto& [name, value] : metrics.values) {
    entry["eval_" + name] = value;
    if (name == options_.metric) judged = value;
  }
  state_->history.push_back(std::move(entry));
  if (metrics.best) state_->best = State::Best{judged, metrics.step, {}};
}

void TrainerStateWriter::checkpoint(int64_t step, const std::string& path) {
  if (state_->best && state_->best->step == step) state_->best->checkpoint = path;
}

void TrainerStateWriter::rewind(int64_t step) { state_->cut(step, options_); }

void TrainerStateWriter::finish(const RunSummary& summary) {
  state_->step = summary.step;
  state_->epoch = summary.epoch;
  if (has_ended(summary.status)) {
    state_->history.push_back({{"epoch", summary.epoch},
                               {"step", summary.step},
                               {"total_flos", options_.flops_per_token * double(state_->tokens_seen)},
                               {"train_loss", summary.train_loss},
                               {"train_runtime", summary.seconds},
                               {"train_samples_per_second", summary.samples_per_s},
                               {"train_steps_per_second", summary.steps_per_s}});
    if (summary.status == RunStatus::pruned) state_->history.back()["pruned"] = true;
  }
  flush();
}

void TrainerStateWriter::flush() { replace_file(path_, state_->text(options_)); }

}  // namespace gradmill
