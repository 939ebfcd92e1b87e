// SPDX-License-Identifier: Apache-2.0
// LabelMap: the classes of a task by name and number. Also the weights of classes in the loss.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradmill {

// The class of an example that is not labelled.
inline constexpr int32_t kUnlabelled = -1;
// The largest number of classes. With more, a text column was probably taken for the label.
inline constexpr int64_t kMaxClasses = 1 << 16;

class LabelMap {
 public:
  LabelMap() = default;
  // The id of a name is its position. Throws a usage_error for an empty name, a duplicate name, or too many names.
  explicit LabelMap(std::vector<std::string> names);

  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  const std::string& name(int32_t id) const { return names_[static_cast<size_t>(id)]; }
  std::span<const std::string> names() const { return names_; }
  std::optional<int32_t> find(std::string_view name) const;

  bool operator==(const LabelMap&) const = default;

 private:
  std::vector<std::string> names_;
  std::map<std::string, int32_t, std::less<>> ids_;
};

// Weights that give every class the same share of the loss, like scikit-learn's "balanced": examples / (number of
// classes that occur * examples of the class). A class without examples gets 0. Unlabelled examples are ignored.
std::vector<float> balanced_weights(std::span<const int32_t> classes, int64_t num_classes);
// Returns one weight per class, in the order of ids. Throws a usage_error for an unknown or missing name, and for a
// weight that is negative or not finite.
std::vector<float> named_weights(const LabelMap& labels, std::span<const std::pair<std::string, double>> weights);

}  // namespace gradmill
