// SPDX-License-Identifier: Apache-2.0
#include "metrics/format.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gradmill {
namespace {

TEST(Format, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1000), "1000 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1.5 * (1 << 30)), "1.50 GiB");
  EXPECT_EQ(format_bytes(141.0 * (1 << 30)), "141 GiB");
  EXPECT_EQ(format_bytes(double(1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(NAN), "-");
}

TEST(Format, Counts) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(48.123), "48.1");
  EXPECT_EQ(format_count(12345), "12.3k");
  EXPECT_EQ(format_count(999999), "1.00M");
  EXPECT_EQ(format_count(1.24e6), "1.24M");
  EXPECT_EQ(format_count(8e12), "8.00T");
  EXPECT_EQ(format_count(INFINITY), "-");
}

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(0.516), "0.52 s");
  EXPECT_EQ(format_duration(42.4), "42 s");
  EXPECT_EQ(format_duration(59.7), "1:00");
  EXPECT_EQ(format_duration(187), "3:07");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(2 * 86400 + 3 * 3600 + 4 * 60 + 5), "2d 03:04:05");
  EXPECT_EQ(format_duration(NAN), "-");
}

TEST(Format, LossesAndShares) {
  EXPECT_EQ(format_loss(2.34567), "2.3457");
  EXPECT_EQ(format_loss(12.3456), "12.346");
  EXPECT_EQ(format_loss(0), "0.0000");
  EXPECT_EQ(format_loss(1.2345e-5), "1.234e-05");
  EXPECT_EQ(format_loss(123456), "1.235e+05");
  EXPECT_EQ(format_loss(NAN), "nan");
  EXPECT_EQ(format_loss(-INFINITY), "-inf");
  EXPECT_EQ(format_percent(0.412), "41.2%");
  EXPECT_EQ(format_percent(NAN), "-");
}

}  // namespace
}  // namespace gradmill
