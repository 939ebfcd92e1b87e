// SPDX-License-Identifier: Apache-2.0
#include "core/cost.h"

#include <gtest/gtest.h>

#include "core/run_op.h"

namespace gradmill {
namespace {

DeviceSpec round_device() {
  DeviceSpec device;
  device.fp32_flops = 1e9;
  device.half_flops = 1e12;
  device.bandwidth = 1e9;
  return device;
}

TEST(Ledger, SecondsAreTheLargerOfArithmeticAndTraffic) {
  Ledger ledger;
  const DeviceSpec device = round_device();
  ledger.add(device, "dense", DType::fp32, {.flops = 3e9, .bytes = 1e9});
  ledger.add(device, "copy", DType::fp32, {.flops = 1, .bytes = 2e9});
  ledger.add(device, "matmul", DType::bf16, {.flops = 5e12, .bytes = 1e9, .matrix = true});
  ledger.add(device, "vector", DType::bf16, {.flops = 7e9, .bytes = 1e9});
  EXPECT_DOUBLE_EQ(ledger.lines().at("dense").seconds, 3);
  EXPECT_DOUBLE_EQ(ledger.lines().at("copy").seconds, 2);
  EXPECT_DOUBLE_EQ(ledger.lines().at("matmul").seconds, 5);
  EXPECT_DOUBLE_EQ(ledger.lines().at("vector").seconds, 7);
  EXPECT_DOUBLE_EQ(ledger.total().seconds, 17);
}

TEST(Ledger, ProductsOfFp32MayRunAsTf32) {
  Ledger ledger;
  DeviceSpec device = round_device();
  device.tf32_flops = 4e9;
  ledger.add(device, "matmul", DType::fp32, {.flops = 8e9, .matrix = true}, true);
  ledger.add(device, "vector", DType::fp32, {.flops = 8e9}, true);
  EXPECT_DOUBLE_EQ(ledger.lines().at("matmul").seconds, 2);
  EXPECT_DOUBLE_EQ(ledger.lines().at("vector").seconds, 8);
}

// Two calls, one bound by arithmetic and one by memory traffic, take the sum of their bounds.
TEST(Ledger, CallsAddUpOneByOne) {
  Ledger ledger;
  ledger.add(round_device(), "op", DType::fp32, {.flops = 2e9, .bytes = 0});
  ledger.add(round_device(), "op", DType::fp32, {.flops = 0, .bytes = 2e9});
  const Ledger::Line& line = ledger.lines().at("op");
  EXPECT_EQ(line.calls, 2);
  EXPECT_DOUBLE_EQ(line.flops, 2e9);
  EXPECT_DOUBLE_EQ(line.bytes, 2e9);
  EXPECT_DOUBLE_EQ(line.seconds, 4);
}

TEST(Ledger, UnknownRatesCostNoTime) {
  Ledger ledger;
  ledger.add(DeviceSpec{}, "op", DType::fp32, {.flops = 1e9, .bytes = 1e9});
  EXPECT_EQ(ledger.total().seconds, 0);
  EXPECT_EQ(ledger.total().calls, 1);
}

class RunOp : public testing::Test {
 protected:
  // Returns whether the implementation was called, and for which type.
  std::string run(DType dtype) {
    std::string called = "none";
    run_op(ctx_, "op", dtype, FloatTypes{}, {.flops = 1},
           [&]<Device D, class T>() { called = std::string(name_of(dtype_of<T>)); });
    return called;
  }
  Ledger ledger_;
  ExecContext ctx_;
};

TEST_F(RunOp, CallsTheTypeAndRecords) {
  ctx_.ledger = &ledger_;
  EXPECT_EQ(run(DType::fp32), "fp32");
  EXPECT_EQ(run(DType::bf16), "bf16");
  EXPECT_EQ(run(DType::fp16), "fp16");
  EXPECT_EQ(ledger_.lines().at("op").calls, 3);
}

TEST_F(RunOp, OnPaperOnlyRecords) {
  ctx_.ledger = &ledger_;
  ctx_.dry = true;
  EXPECT_EQ(run(DType::fp32), "none");
  EXPECT_EQ(ledger_.lines().at("op").calls, 1);
}

TEST_F(RunOp, RefusesOtherTypesByName) {
  for (bool dry : {false, true}) {
    ctx_.dry = dry;
    try {
      run(DType::int8);
      FAIL() << "there is no int8 implementation";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("'op' has no int8"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace gradmill
