// SPDX-License-Identifier: Apache-2.0
#include "config/run_config.h"

#include <functional>
#include <initializer_list>
#include <utility>

#include "core/device_spec.h"

namespace gradmill {

std::vector<std::string> MachineConfig::device_names() {
  std::vector<std::string> names = {"auto", "cpu", "cuda"};
  for (const DeviceSpec& gpu : gpu_catalogue()) names.push_back(gpu.name);
  return names;
}

namespace {

using Require = std::function<void(bool good, std::vector<std::string> keys, std::string rule)>;

// A setting that nothing would read is a mistake.
void check_data(const RunConfig& config, const Require& require) {
  const DataConfig &data = config.data, defaults;
  const bool tokens = !data.path.empty();
  for (const auto& [key, changed] : std::initializer_list<std::pair<const char*, bool>>{
           {"data.tokenizer", data.tokenizer != defaults.tokenizer},
           {"data.task", data.task != defaults.task},
           {"data.column", data.column != defaults.column},
           {"data.eos", data.eos != defaults.eos},
           {"data.lines", data.lines != defaults.lines},
           {"data.packing", data.packing != defaults.packing},
           {"data.streaming", data.streaming != defaults.streaming},
           {"data.cache", data.cache != defaults.cache},
           {"data.bad_records", data.bad_records != defaults.bad_records},
           {"data.validation_path", data.validation_path != defaults.validation_path}}) {
    require(tokens || !changed, {key, "data.path"}, "it is for tokens: name the data with data.path");
  }
  if (!tokens) return;
  require(!data.tokenizer.empty(), {"data.path", "data.tokenizer"}, "name the tokenizer, or use data.tokenizer=byte");
  require(data.dataset == defaults.dataset, {"data.path", "data.dataset"}, "one of them says what the run learns from");
  require(data.max_chars == 0, {"data.path", "data.max_chars"}, "it is for characters of a data.dataset");
  require(!data.download, {"data.path", "data.download"}, "only a data.dataset can be fetched");
  require(data.task == "text" || data.column == defaults.column, {"data.task", "data.column"},
          "the fields of instructions have names of their own");
  require(data.task == "text" || data.eos == defaults.eos, {"data.task", "data.eos"},
          "how an answer ends is said by the tokenizer's files");
  if (!data.streaming) return;
  require(!data.validation_path.empty(), {"data.streaming", "data.validation_path"},
          "a stream has no end to hold out: name the validation data");
  // How long an epoch is shows only at its end.
  const auto counts_no_epochs = [&](const char* key, int64_t value) {
    require(value == 0, {"data.streaming", key}, "streams are counted in steps");
  };
  counts_no_epochs("training.epochs", config.training.epochs);
  counts_no_epochs("eval.every_epochs", config.eval.every_epochs);
  counts_no_epochs("checkpoint.every_epochs", config.checkpoint.every_epochs);
}

}  // namespace

std::vector<BrokenRule> broken_rules(const RunConfig& config) {
  std::vector<BrokenRule> broken;
  const auto require = [&](bool good, std::vector<std::string> keys, std::string rule) {
    if (!good) broken.push_back({std::move(keys), std::move(rule)});
  };
  check_data(config, require);
  const ModelConfig& model = config.model;
  require(model.width % model.heads == 0, {"model.width", "model.heads"}, "the width must be a multiple of the heads");
  require(model.kv_heads == 0 || model.heads % model.kv_heads == 0, {"model.heads", "model.kv_heads"},
          "the heads must be a multiple of the key heads");
  require(model.bias || model.style == "gpt2", {"model.bias", "model.style"}, "only gpt2's biases can be left out");
  // Two lengths would leave it to guessing which one ends the run.
  require((config.training.steps == 0) != (config.training.epochs == 0), {"training.steps", "training.epochs"},
          "one of them must be 0 and the other say how long the run is");
  require(config.schedule.name == "constant" || config.optimizer.min_lr <= config.optimizer.lr,
          {"optimizer.min_lr", "optimizer.lr"}, "the rate at the end must not be above the peak");
  return broken;
}

}  // namespace gradmill
