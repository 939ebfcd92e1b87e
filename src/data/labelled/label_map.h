// SPDX-License-Identifier: Apache-2.0
// LabelMap: the classes of a task by name and number. And what each of them weighs in the loss.
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

// An example whose class is not known.
inline constexpr int32_t kUnlabelled = -1;
// More classes than anyone trains for: a column of texts was taken for the label.
inline constexpr int64_t kMaxClasses = 1 << 16;

class LabelMap {
 public:
  LabelMap() = default;
  // A name's id is its position. Throws a usage_error for an empty name, one that occurs twice, or too many.
  explicit LabelMap(std::vector<std::string> names);
  // `label2id` of a model's config.json. Throws a usage_error also where the ids are not 0 to n - 1, each once.
  static LabelMap from_ids(std::span<const std::pair<std::string, int64_t>> label2id);

  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  const std::string& name(int32_t id) const { return names_[static_cast<size_t>(id)]; }
  std::span<const std::string> names() const { return names_; }
  std::optional<int32_t> find(std::string_view name) const;

  // As config.json has them: {"0": "no", "1": "yes"} and {"no": 0, "yes": 1}.
  std::string id2label_json() const;
  std::string label2id_json() const;

  bool operator==(const LabelMap&) const = default;

 private:
  std::vector<std::string> names_;
  std::map<std::string, int32_t, std::less<>> ids_;
};

// Weights that give every class the same share of the loss: examples / (classes that occur * examples of the class), as
// scikit-learn's "balanced". A class without examples gets 0. Unlabelled examples do not count.
std::vector<float> balanced_weights(std::span<const int32_t> classes, int64_t num_classes);
// One for each class, in order of ids. Throws a usage_error for a name that is unknown or missing, and for a weight
// that is negative or not finite.
std::vector<float> named_weights(const LabelMap& labels, std::span<const std::pair<std::string, double>> weights);

}  // namespace gradmill
