// SPDX-License-Identifier: Apache-2.0
#include "metrics/compare.h"

#include <gtest/gtest.h>

#include <sstream>

#include "metrics/files.h"
#include "metrics/jsonl_writer.h"
#include "metrics/text_plot.h"

namespace gradmill {
namespace {

using test::eval_at;
using test::step_at;
using test::TemporaryFolder;

void write_run(const std::filesystem::path& folder, int64_t steps, double loss_offset) {
  JsonlWriter writer(folder / "metrics.jsonl", kFreshRun);
  for (int64_t step = 1; step <= steps; ++step) {
    writer.step(step_at(step, loss_offset));
    if (step % 10 == 0) writer.eval(eval_at(step));
  }
  writer.text(steps, "sample", "text");
}

void expect_line(const std::string& report, const std::string& line) {
  EXPECT_NE(("\n" + report).find("\n" + line + "\n"), std::string::npos) << line << "\nnot in\n" << report;
}

TEST(Compare, SettingsMetricsAndCurves) {
  const TemporaryFolder folder;
  write_run(folder.path() / "a", 40, 0);
  write_run(folder.path() / "b", 20, 1);
  const std::string report =
      compare_runs(load_compared_run(folder.path() / "a", {{"optim.lr", "0.001"}, {"seed", "1"}, {"old", "x"}}),
                   load_compared_run(folder.path() / "b", {{"optim.lr", "0.0003"}, {"seed", "1"}, {"new", "y"}}));
  expect_line(report, "A  " + (folder.path() / "a").string());
  expect_line(report, "config: 3 of 4 settings differ");
  expect_line(report, "  new       (not set)  y");
  expect_line(report, "  old       x          (not set)");
  expect_line(report, "  optim.lr  0.001      0.0003");
  EXPECT_EQ(report.find("  seed"), std::string::npos);
  expect_line(report, "  steps                  40        20");
  expect_line(report, "  train loss, last       0.1000    1.2000    +1.1000");
  expect_line(report, "  validation loss, best  0.1220    0.2381    +0.1161");
  expect_line(report, "    at step              40        20");
  expect_line(report, "  tokens seen            2.56k     1.28k     -50.0%");
  expect_line(report, "  memory, peak           3.00 MiB  3.00 MiB  +0.0%");
  expect_line(report, "train loss by step");
  expect_line(report, "validation loss by step");
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    const bool is_name = line.find(folder.path().string()) != std::string::npos;
    EXPECT_TRUE(is_name || line.size() <= 80u) << line;
  }
}

TEST(Compare, ALastLineThatIsCutShortIsNoDamage) {
  const TemporaryFolder folder;
  const std::string good = R"({"kind":"train","step":1,"loss":2.5,"finite":true})";
  folder.write("cut/metrics.jsonl", good + "\n" + good.substr(0, 30));
  folder.write("damaged/metrics.jsonl", good + "\nrubbish\n[]\n" + good + "\n");
  folder.write("empty/metrics.jsonl", "");
  const ComparedRun cut = load_compared_run(folder.path() / "cut", {});
  const ComparedRun damaged = load_compared_run(folder.path() / "damaged", {});
  const ComparedRun empty = load_compared_run(folder.path() / "empty", {});
  EXPECT_EQ(cut.record.steps.size(), 1u);
  EXPECT_EQ(cut.record.unreadable_lines, 0);
  EXPECT_EQ(damaged.record.steps.size(), 2u);
  EXPECT_EQ(damaged.record.unreadable_lines, 2);
  EXPECT_NE(compare_runs(cut, damaged).find("(2 lines of its metrics.jsonl cannot be read)"), std::string::npos);
  expect_line(compare_runs(empty, empty), "  train loss, last       -  -");
  test::expect_error([&] { load_compared_run(folder.path() / "nowhere", {}); }, ExitCode::data,
                     {"nowhere/metrics.jsonl", "folder of a run"});
}

TEST(Compare, ALossThatIsNotFiniteIsNeitherLastNorBest) {
  ComparedRun run;
  run.record.steps = {step_at(1), {.step = 2, .finite = false}};
  run.record.evals = {eval_at(1), {.step = 2}};
  const std::string report = compare_runs(run, run);
  expect_line(report, "  steps                  2         2");
  expect_line(report, "  train loss, last       4.0000    4.0000    +0.0000");
  expect_line(report, "  validation loss, last  2.5000    2.5000    +0.0000");
  expect_line(report, "  steps not finite       1         1");
}

TEST(TextPlot, DrawsBothCurvesAndWhereTheyMeet) {
  const PlotCurve curves[] = {{"first", 'o', {{0, 0}, {5, 1}, {10, 2}}}, {"second", 'x', {{0, 2}, {5, 1}, {10, 0}}}};
  EXPECT_EQ(plot_curves("title", curves, 23, 3),
            "title\n"
            "    2.0000 |x         o\n"
            "    1.0000 |     *\n"
            "    0.0000 |o         x\n"
            "           +-----------\n"
            "            0        10\n"
            "            o first   x second   * both\n");
}

TEST(TextPlot, MeansInAColumnAndNothingThatIsNotFinite) {
  const double nan = kUnknown;
  const PlotCurve noisy[] = {{"a", 'o', {{0, 1}, {0, 3}, {10, 4}, {10, nan}, {nan, 9}}}};
  const std::string plot = plot_curves("t", noisy, 23, 3);
  EXPECT_NE(plot.find("4.0000 |          o\n"), std::string::npos) << plot;
  EXPECT_NE(plot.find("2.0000 |o\n"), std::string::npos) << plot;
  const PlotCurve empty[] = {{"a", 'o', {{1, nan}}}};
  EXPECT_EQ(plot_curves("t", empty, 23, 3), "");
  const PlotCurve flat[] = {{"a", 'o', {{1, 2}, {1, 2}}}};
  EXPECT_NE(plot_curves("t", flat, 23, 3).find("|o"), std::string::npos);
}

}  // namespace
}  // namespace gradmill
