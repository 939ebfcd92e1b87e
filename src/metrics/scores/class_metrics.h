// SPDX-License-Identifier: Apache-2.0
// How good a classifier's decisions are. Definitions are scikit-learn's, with 0 where one divides by nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gradmill {

class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t num_classes);
  // Both are class ids; decisions[i] is about the example whose class is truth[i].
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
  std::vector<int64_t> counts_;  // a row for each true class
};

struct ClassScores {
  double precision = 0, recall = 0, f1 = 0;
  int64_t support = 0;  // examples of the class
};

struct ClassReport {
  std::vector<ClassScores> classes;
  ClassScores macro;     // means over classes that occur, among the examples or the decisions
  ClassScores weighted;  // means weighted by support
  double accuracy = 0;
  double micro_f1 = 0;  // of all decisions together: with one label for each example the same as the accuracy
  double mcc = 0;       // Matthews' correlation: 0 is chance, 1 perfect; for any number of classes
};
ClassReport class_report(const ConfusionMatrix& matrix);

// Tables for a terminal, each line ended. Names of classes by id.
std::string describe(const ClassReport& report, std::span<const std::string> names);
std::string describe(const ConfusionMatrix& matrix, std::span<const std::string> names);

}  // namespace gradmill
