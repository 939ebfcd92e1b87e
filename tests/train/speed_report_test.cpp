// SPDX-License-Identifier: Apache-2.0
#include "core/gpu_catalogue.h"
#include "train/speed_report.h"

#include <gtest/gtest.h>

#include <limits>

namespace gradmill {
namespace {

constexpr StepWork kStep{.seconds = 0.1, .tokens = 1000, .flops = 40e12, .utilisation = 0.99};

SpeedReport report(const StepWork& step, int steps = 20, const char* device = "h100") {
  SpeedReport report(device_by_name(device), 1000e12, 500e12);
  for (int i = 0; i < steps; ++i) report.add(step);
  return report;
}

bool mention(const std::vector<std::string>& lines, std::string_view part) {
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(SpeedReport, ComparesWithTheRoofline) {
  const std::vector<std::string> lines = report(kStep).lines({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "speed     10.0k tok/s, 100 ms per step, 0.0% of it waiting for data, MFU 40.0%; 80.0% of the roofline of "
            "H100 SXM "
            "80GB: good");
}

TEST(SpeedReport, LeavesOutTheFirstStepsAndNeedsSome) {
  EXPECT_TRUE(report(kStep, 12).lines({}).empty());
  SpeedReport slow_start(device_by_name("h100"), 1000e12, 500e12);
  for (int i = 0; i < 3; ++i) slow_start.add({.seconds = 60, .tokens = 1000, .flops = 40e12});
  for (int i = 0; i < 10; ++i) slow_start.add(kStep);
  EXPECT_TRUE(mention(slow_start.lines({}), "10.0k tok/s, 100 ms per step"));
}

TEST(SpeedReport, SaysWhatToChange) {
  StepWork step = kStep;
  step.flops /= 10;
  step.stall_seconds = 0.02;
  step.utilisation = 0.3;
  RunConfig config;
  config.compile.mode = "off";
  config.attention.backend = "math";
  const std::vector<std::string> lines = report(step).lines(config);
  for (const char* part :
       {": slow", "20.0% of it waiting for data", "waits for data", "data.num_workers", "ran only 30.0%",
        "compile.mode=off: reduce-overhead", "attention.backend=math", "training.micro_batch_size"}) {
    EXPECT_TRUE(mention(lines, part)) << part;
  }
  // In a good run that waits a little, only the wait is reported.
  StepWork good = kStep;
  good.stall_seconds = 0.002;
  EXPECT_EQ(report(good).lines(config).size(), 2u);
}

TEST(SpeedReport, JudgesNoCpuAndNoUnknownGpu) {
  EXPECT_FALSE(mention(report(kStep, 20, "cpu").lines({}), "roofline"));
  SpeedReport unknown(device_by_name("h100"), 0, std::numeric_limits<double>::infinity());
  for (int i = 0; i < 20; ++i) unknown.add(kStep);
  EXPECT_EQ(unknown.lines({}),
            std::vector<std::string>{"speed     10.0k tok/s, 100 ms per step, 0.0% of it waiting for data"});
}

}  // namespace
}  // namespace gradmill
