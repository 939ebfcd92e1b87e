// SPDX-License-Identifier: Apache-2.0
// Metrics of a classifier's decisions. The definitions are those of scikit-learn; a division by zero gives 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gradmill {

class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t num_classes);
  // Both contain class ids: decisions[i] belongs to the example whose class is truth[i].
  ConfusionMatrix(int64_t num_classes, std::span<const int32_t> truth, std::span<const int32_t> decisions);

  void add(int32_t truth, int32_t decision) { ++counts_[index(truth, decision)]; }
  int64_t count(int32_t truth, int32_t decision) const { return counts_[index(truth, decision)]; }
  int64_t num_classes() const { return num_classes_; }
  int64_t total() const;
  int64_t num_of(int32_t truth) const;
  int64_t num_decided(int32_t decision) const;

 private:
  size_t index(int32_t truth, int32_t decision) const;

  int64_t num_classes_;
  std::vector<int64_t> counts_;  // one row per true class
};

struct ClassScores {
  double precision = 0, recall = 0, f1 = 0;
  int64_t support = 0;  // number of examples of the class
};

struct ClassReport {
  std::vector<ClassScores> classes;
  ClassScores macro;     // mean over the classes that occur in the examples or the decisions
  ClassScores weighted;  // mean weighted by support
  double accuracy = 0;
  double micro_f1 = 0;  // over all decisions together; with one label per example this equals the accuracy
  double mcc = 0;       // Matthews' correlation: 0 is chance, 1 is perfect; works for any number of classes
};
ClassReport class_report(const ConfusionMatrix& matrix);

// Tables for a terminal; each line ends with a line feed. `names` has the class names by id.
std::string describe(const ClassReport& report, std::span<const std::string> names);
std::string describe(const ConfusionMatrix& matrix, std::span<const std::string> names);

}  // namespace gradmill
