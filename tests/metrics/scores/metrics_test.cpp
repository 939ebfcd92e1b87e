// SPDX-License-Identifier: Apache-2.0
// Compares metrics with scikit-learn and scipy (tests/goldens/task_metrics.json, made by tools/make_metric_goldens.py),
// and checks cases that can be verified by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/goldens.h"
#include "metrics/scores/class_metrics.h"
#include "metrics/scores/regression_metrics.h"
#include "metrics/scores/roc.h"
#include "metrics/scores/text_metrics.h"
#include "metrics/scores/thresholds.h"

namespace gradmill::test {
namespace {

using nlohmann::json;

json goldens() {
  std::ifstream file(golden_path("x").parent_path() / "task_metrics.json");
  return json::parse(file);
}

template <class T>
std::vector<T> list(const json& values) {
  return values.get<std::vector<T>>();
}

TEST(TaskMetrics, ClassesAsScikitLearn) {
  for (const json& golden : goldens()["classes"]) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const int64_t classes = golden["classes"];
    const std::vector<int32_t> truth = list<int32_t>(golden["truth"]), decisions = list<int32_t>(golden["decisions"]);
    const ConfusionMatrix matrix(classes, truth, decisions);
    const ClassReport report = class_report(matrix);
    for (int32_t t = 0; t < classes; ++t) {
      for (int32_t d = 0; d < classes; ++d) {
        EXPECT_EQ(matrix.count(t, d), golden["confusion"][static_cast<size_t>(t)][static_cast<size_t>(d)]);
      }
      const auto k = static_cast<size_t>(t);
      EXPECT_NEAR(report.classes[k].precision, golden["precision"][k], 1e-12);
      EXPECT_NEAR(report.classes[k].recall, golden["recall"][k], 1e-12);
      EXPECT_NEAR(report.classes[k].f1, golden["f1"][k], 1e-12);
    }
    EXPECT_NEAR(report.accuracy, golden["accuracy"], 1e-12);
    EXPECT_NEAR(report.micro_f1, golden["micro_f1"], 1e-12);
    EXPECT_NEAR(report.macro.f1, golden["macro_f1"], 1e-12);
    EXPECT_NEAR(report.weighted.f1, golden["weighted_f1"], 1e-12);
    EXPECT_NEAR(report.mcc, golden["mcc"], 1e-12);
    if (golden["auroc"].is_null()) continue;
    const std::vector<float> scores = list<float>(golden["scores"]);
    if (classes == 2) {
      std::vector<float> second;
      std::vector<uint8_t> positive;
      for (size_t i = 0; i < truth.size(); ++i) {
        second.push_back(scores[2 * i + 1]);
        positive.push_back(truth[i] == 1);
      }
      EXPECT_NEAR(roc_auc(second, positive), golden["auroc"], 1e-9);
    } else {
      EXPECT_NEAR(macro_roc_auc(scores, truth, classes), golden["auroc"], 1e-9);
    }
  }
}

TEST(TaskMetrics, NumbersAsScipy) {
  for (const json& golden : goldens()["numbers"]) {
    const RegressionScores scores = regression_scores(list<float>(golden["predicted"]), list<float>(golden["truth"]));
    EXPECT_NEAR(scores.mse, golden["mse"], 1e-9);
    EXPECT_NEAR(scores.mae, golden["mae"], 1e-9);
    EXPECT_NEAR(scores.pearson, golden["pearson"], 1e-9);
    EXPECT_NEAR(scores.spearman, golden["spearman"], 1e-9);
  }
}

TEST(TaskMetrics, ThresholdsAsAllCutsTriedOut) {
  for (const json& golden : goldens()["thresholds"]) {
    const std::vector<float> scores = list<float>(golden["scores"]);
    const std::vector<uint8_t> positive = list<uint8_t>(golden["positive"]);
    for (const char* goal : {"f1", "accuracy", "mcc"}) {
      const Threshold best = best_threshold(scores, positive, threshold_goal(goal));
      EXPECT_NEAR(best.score, golden["best"][goal], 1e-9) << goal;
      // Checks that the threshold really gives this score.
      std::vector<int32_t> truth, decisions;
      for (size_t i = 0; i < scores.size(); ++i) {
        truth.push_back(positive[i]);
        decisions.push_back(double(scores[i]) >= best.value);
      }
      const ClassReport report = class_report(ConfusionMatrix(2, truth, decisions));
      const double reached = goal[0] == 'f' ? report.classes[1].f1 : goal[0] == 'a' ? report.accuracy : report.mcc;
      EXPECT_NEAR(reached, best.score, 1e-12) << goal;
    }
  }
}

TEST(TaskMetrics, EdgesByHand) {
  // A perfect ranking, its reverse, and only ties.
  const std::vector<uint8_t> positive = {0, 0, 1, 1};
  EXPECT_EQ(roc_auc(std::vector<float>{0.1f, 0.2f, 0.8f, 0.9f}, positive), 1);
  EXPECT_EQ(roc_auc(std::vector<float>{0.9f, 0.8f, 0.2f, 0.1f}, positive), 0);
  EXPECT_EQ(roc_auc(std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f}, positive), 0.5);
  EXPECT_TRUE(std::isnan(roc_auc(std::vector<float>{0.5f, 0.6f}, std::vector<uint8_t>{1, 1})));
  // The one closest to 0.5 of several equally good cuts.
  const Threshold middle =
      best_threshold(std::vector<float>{0.4f, 0.6f}, std::vector<uint8_t>{0, 1}, ThresholdGoal::f1);
  EXPECT_NEAR(middle.value, 0.5, 1e-7);
  EXPECT_TRUE(std::isnan(regression_scores(std::vector<float>{1, 1}, std::vector<float>{1, 2}).pearson));
  EXPECT_EQ(average_ranks(std::vector<float>{3, 1, 3}), (std::vector<double>{2.5, 1, 2.5}));
  EXPECT_THROW(threshold_goal("recall"), Error);
  EXPECT_DOUBLE_EQ(perplexity(std::log(8.0)), 8);
  EXPECT_DOUBLE_EQ(bits_per_byte(16 * std::log(2.0), 8), 2);
  EXPECT_TRUE(std::isnan(bits_per_byte(1, 0)));
}

TEST(TaskMetrics, ReportsNameTheirClasses) {
  const std::vector<std::string> names = {"entailment", "not_entailment"};
  const ConfusionMatrix matrix(2, std::vector<int32_t>{0, 0, 1, 1}, std::vector<int32_t>{0, 1, 1, 1});
  const std::string text = describe(class_report(matrix), names) + describe(matrix, names);
  EXPECT_NE(text.find("not_entailment"), std::string::npos) << text;
  EXPECT_NE(text.find("accuracy 0.7500"), std::string::npos) << text;
}

}  // namespace
}  // namespace gradmill::test
