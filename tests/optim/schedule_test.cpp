// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace gradmill::test {
namespace {

Schedule of(ScheduleKind kind) {
  return {.kind = kind, .peak = 1, .floor = 0.1f, .warmup_steps = 10, .total_steps = 110, .decay_fraction = 0.25};
}

TEST(Schedule, WarmsUpInALine) {
  for (ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd}) {
    EXPECT_FLOAT_EQ(of(kind).at(0), 0.1f);
    EXPECT_FLOAT_EQ(of(kind).at(4), 0.5f);
    EXPECT_FLOAT_EQ(of(kind).at(9), 1.0f);
    EXPECT_FLOAT_EQ(of(kind).at(10), 1.0f);
  }
}

TEST(Schedule, Courses) {
  EXPECT_FLOAT_EQ(of(ScheduleKind::constant).at(109), 1.0f);
  EXPECT_FLOAT_EQ(of(ScheduleKind::linear).at(60), 0.55f);
  EXPECT_FLOAT_EQ(of(ScheduleKind::cosine).at(60), 0.55f);
  EXPECT_FLOAT_EQ(of(ScheduleKind::cosine).at(35), 0.1f + 0.9f * 0.5f * (1 + 0.70710678f));
  EXPECT_FLOAT_EQ(of(ScheduleKind::wsd).at(84), 1.0f);
  EXPECT_FLOAT_EQ(of(ScheduleKind::wsd).at(85), 1.0f);
  EXPECT_NEAR(of(ScheduleKind::wsd).at(97), 1 - 0.9 * 12 / 25, 1e-6);
  for (ScheduleKind kind : {ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd}) {
    EXPECT_FLOAT_EQ(of(kind).at(110), 0.1f);
    EXPECT_FLOAT_EQ(of(kind).at(5000), 0.1f);
  }
}

TEST(Schedule, NoWarmUp) {
  Schedule schedule = of(ScheduleKind::linear);
  schedule.warmup_steps = 0;
  EXPECT_FLOAT_EQ(schedule.at(0), 1.0f);
}

TEST(Schedule, Names) {
  EXPECT_EQ(schedule_kind("wsd"), ScheduleKind::wsd);
  EXPECT_THROW(schedule_kind("cosin"), Error);
}

}  // namespace
}  // namespace gradmill::test
