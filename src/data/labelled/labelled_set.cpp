// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/labelled_set.h"

#include <fmt/format.h>

#include <cmath>

namespace gradmill {

bool LabelledSet::is_labelled(const LabelledExample& example) const {
  return regression ? !std::isnan(example.target) : example.label != kUnlabelled;
}

std::string LabelledSet::where(const LabelledExample& example) const {
  return fmt::format("'{}' line {}", files[static_cast<size_t>(example.file)], example.line);
}

std::vector<int32_t> LabelledSet::classes() const {
  std::vector<int32_t> result;
  for (const LabelledExample& example : examples) result.push_back(example.label);
  return result;
}

std::vector<int32_t> LabelledSet::groups() const {
  std::vector<int32_t> result;
  for (const LabelledExample& example : examples) result.push_back(example.group);
  return result;
}

}  // namespace gradmill
