// SPDX-License-Identifier: Apache-2.0
#include "run/train_state.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace gradmill {
namespace {

constexpr bool kMayBeMissing = true;  // in checkpoints of earlier versions

// Lists the fields once, for both writing and reading.
template <class State, class Visit>
void visit_fields(State& state, Visit&& visit) {
  visit("step", state.step);
  visit("updates", state.updates);
  visit("loss_scale", state.loss_scale);
  visit("scale_streak", state.scale_streak);
  visit("scale_skips", state.scale_skips);
  visit("tokens_seen", state.tokens_seen);
  visit("loss_total", state.loss_total);
  visit("finite_steps", state.finite_steps);
  visit("best_loss", state.best_loss);
  visit("best_value", state.best_value, kMayBeMissing);
  visit("best_step", state.best_step);
  visit("evals_since_best", state.evals_since_best);
  visit("stopped_early", state.stopped_early);
  visit("pruned", state.pruned, kMayBeMissing);
  visit("running_loss", state.running_loss);
  visit("bad_steps", state.bad_steps);
  visit("rollbacks", state.rollbacks);
  visit("lr_factor", state.lr_factor);
  visit("epoch_loss_total", state.epoch_loss_total);
  visit("epoch_steps", state.epoch_steps);
  visit("seed", state.seed);
  visit("data_hash", state.data_hash);
  visit("vocabulary", state.vocabulary);
  visit("tokenizer_hash", state.tokenizer_hash, kMayBeMissing);
  visit("data_place", state.data_place, kMayBeMissing);
  visit("base_hash", state.base_hash, kMayBeMissing);
  visit("task", state.task, kMayBeMissing);
  visit("labels", state.labels, kMayBeMissing);
  visit("threshold", state.threshold, kMayBeMissing);
}

// A missing optional number is written as null.
template <class T>
nlohmann::json to_json_value(const T& value) {
  return value;
}
nlohmann::json to_json_value(const std::optional<double>& value) { return value ? nlohmann::json(*value) : nullptr; }

template <class T>
void read_value(const nlohmann::json& stored, T& value) {
  stored.get_to(value);
}
void read_value(const nlohmann::json& stored, std::optional<double>& value) { value = stored.get<double>(); }

}  // namespace

std::string to_json(const TrainState& state) {
  nlohmann::json json;
  visit_fields(state, [&](const char* name, const auto& value, bool = false) { json[name] = to_json_value(value); });
  if (!state.pruned) json.erase("pruned");
  // JSON has no infinity; before the first evaluation there is no best loss.
  if (state.best_loss == std::numeric_limits<double>::infinity()) json["best_loss"] = nullptr;
  return json.dump();
}

TrainState state_from_json(const std::string& text) {
  TrainState state;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    visit_fields(state, [&](const char* name, auto& value, bool may_be_missing = false) {
      if (may_be_missing && !json.contains(name)) return;
      const nlohmann::json& stored = json.at(name);
      if (!stored.is_null()) read_value(stored, value);
    });
  } catch (const nlohmann::json::exception& error) {
    throw data_error(fmt::format("the checkpoint's training state cannot be read ({})", error.what()),
                     "use another checkpoint, or one made by this version");
  }
  return state;
}

}  // namespace gradmill
