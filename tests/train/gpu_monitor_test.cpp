// SPDX-License-Identifier: Apache-2.0
#include "train/gpu_monitor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gradmill {
namespace {

TEST(GpuMonitor, AsksAtMostOnceASecond) {
  int asked = 0;
  double now = 100;
  GpuMonitor monitor(
      [&]() -> std::optional<cuda::GpuSample> {
        ++asked;
        cuda::GpuSample sample;
        sample.power_watts = 600 + asked;
        sample.memory_used_bytes = 1024;
        return sample;
      },
      [&] { return now; });
  EXPECT_TRUE(std::isnan(monitor.metrics(false).watts));
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(monitor.metrics(true).watts, 601);
  now += 0.9;
  EXPECT_EQ(monitor.metrics(true).watts, 601);
  now += 0.2;
  EXPECT_EQ(monitor.metrics(false).watts, 601);
  EXPECT_EQ(monitor.metrics(true).watts, 602);
  EXPECT_EQ(monitor.metrics(true).memory_bytes, 1024u);
  EXPECT_TRUE(std::isnan(monitor.metrics(true).celsius));
  EXPECT_EQ(asked, 2);
}

TEST(GpuMonitor, AGpuThatFallsSilentIsUnknown) {
  bool silent = false;
  double now = 0;
  GpuMonitor monitor(
      [&]() -> std::optional<cuda::GpuSample> {
        if (silent) return {};
        cuda::GpuSample sample;
        sample.utilisation = 0.5;
        return sample;
      },
      [&] { return now; });
  EXPECT_EQ(monitor.metrics(true).utilisation, 0.5);
  silent = true;
  now += 2;
  EXPECT_TRUE(std::isnan(monitor.metrics(true).utilisation));
}

TEST(GpuMonitor, KnowsNothingOnACpu) {
  GpuMonitor monitor(host_cpu());
  const GpuMetrics metrics = monitor.metrics(true);
  EXPECT_TRUE(std::isnan(metrics.utilisation) && std::isnan(metrics.watts));
  EXPECT_EQ(metrics.memory_bytes, 0u);
}

}  // namespace
}  // namespace gradmill
