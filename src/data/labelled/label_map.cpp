// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/label_map.h"

#include <cmath>

#include "core/error.h"
#include "data/records/bad_records.h"

namespace gradmill {

LabelMap::LabelMap(std::vector<std::string> names) : names_(std::move(names)) {
  if (size() > kMaxClasses) {
    throw usage_error(fmt::format("{} labels", size()), fmt::format("give at most {}", kMaxClasses));
  }
  for (size_t id = 0; id < names_.size(); ++id) {
    if (names_[id].empty()) throw usage_error("a label without a name", "name every label");
    if (!ids_.emplace(names_[id], static_cast<int32_t>(id)).second) {
      throw usage_error(fmt::format("label {} occurs twice", shown_name(names_[id])), "name every label once");
    }
  }
}

std::optional<int32_t> LabelMap::find(std::string_view name) const {
  const auto at = ids_.find(name);
  return at == ids_.end() ? std::nullopt : std::optional(at->second);
}

std::vector<float> balanced_weights(std::span<const int32_t> classes, int64_t num_classes) {
  std::vector<int64_t> counts(static_cast<size_t>(num_classes), 0);
  int64_t total = 0, present = 0;
  for (const int32_t id : classes) {
    if (id == kUnlabelled) continue;
    if (counts[static_cast<size_t>(id)]++ == 0) ++present;
    ++total;
  }
  std::vector<float> weights;
  for (const int64_t count : counts) {
    const double share = static_cast<double>(present) * static_cast<double>(count);
    weights.push_back(count == 0 ? 0.0f : static_cast<float>(static_cast<double>(total) / share));
  }
  return weights;
}

std::vector<float> named_weights(const LabelMap& labels, std::span<const std::pair<std::string, double>> weights) {
  std::vector<float> result(static_cast<size_t>(labels.size()), -1.0f);
  for (const auto& [name, weight] : weights) {
    const std::optional<int32_t> id = labels.find(name);
    if (!id) throw usage_error(fmt::format("a weight for the unknown label {}", shown_name(name)), "check its name");
    if (!std::isfinite(weight) || weight < 0) {
      throw usage_error(fmt::format("label {} has the weight {}", shown_name(name), weight), "give 0 or more");
    }
    result[static_cast<size_t>(*id)] = static_cast<float>(weight);
  }
  for (int32_t id = 0; id < labels.size(); ++id) {
    if (result[static_cast<size_t>(id)] >= 0) continue;
    throw usage_error(fmt::format("label {} has no weight", shown_name(labels.name(id))), "give one to every label");
  }
  return result;
}

}  // namespace gradmill
