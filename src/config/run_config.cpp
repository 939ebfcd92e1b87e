// SPDX-License-Identifier: Apache-2.0
#include "config/run_config.h"

#include "core/device_spec.h"

namespace gradmill {

std::vector<std::string> MachineConfig::device_names() {
  std::vector<std::string> names = {"auto", "cpu", "cuda"};
  for (const DeviceSpec& gpu : gpu_catalogue()) names.push_back(gpu.name);
  return names;
}

std::vector<BrokenRule> broken_rules(const RunConfig& config) {
  std::vector<BrokenRule> broken;
  const auto require = [&](bool good, std::vector<std::string> keys, std::string rule) {
    if (!good) broken.push_back({std::move(keys), std::move(rule)});
  };
  const ModelConfig& model = config.model;
  require(model.width % model.heads == 0, {"model.width", "model.heads"}, "the width must be a multiple of the heads");
  require(model.kv_heads == 0 || model.heads % model.kv_heads == 0, {"model.heads", "model.kv_heads"},
          "the heads must be a multiple of the key heads");
  // Two lengths would leave it to guessing which one ends the run.
  require((config.training.steps == 0) != (config.training.epochs == 0), {"training.steps", "training.epochs"},
          "one of them must be 0 and the other say how long the run is");
  require(config.schedule.name == "constant" || config.optimizer.min_lr <= config.optimizer.lr,
          {"optimizer.min_lr", "optimizer.lr"}, "the rate at the end must not be above the peak");
  return broken;
}

}  // namespace gradmill
