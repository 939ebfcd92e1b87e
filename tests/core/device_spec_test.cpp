// SPDX-License-Identifier: Apache-2.0
#include "core/gpu_catalogue.h"
#include "core/device_spec.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace gradmill {
namespace {

TEST(DeviceSpec, NamesInAnyCase) {
  EXPECT_EQ(device_by_name("H200").name, "h200");
  EXPECT_EQ(device_by_name("h200").compute_capability, 90);
  EXPECT_EQ(device_by_name("CPU").kind, DeviceKind::cpu);
}

TEST(DeviceSpec, UnknownNameListsTheKnown) {
  try {
    device_by_name("h300");
    FAIL() << "there is no h300";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    const std::string text = error.what();
    EXPECT_NE(text.find("'h300'"), std::string::npos) << text;
    for (const char* name : {"cpu", "rtx4090", "h100"}) EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

TEST(DeviceSpec, MatrixRatesFollowTheDtype) {
  const DeviceSpec h100 = device_by_name("h100");
  EXPECT_EQ(h100.matrix_flops(DType::bf16), h100.half_flops);
  EXPECT_EQ(h100.matrix_flops(DType::fp16), h100.half_flops);
  EXPECT_EQ(h100.matrix_flops(DType::fp8_e4m3), h100.fp8_flops);
  EXPECT_EQ(h100.matrix_flops(DType::fp32), h100.fp32_flops);
  EXPECT_EQ(h100.matrix_flops(DType::fp32, true), h100.tf32_flops);
  EXPECT_EQ(h100.matrix_flops(DType::bf16, true), h100.half_flops);
  const DeviceSpec t4 = device_by_name("t4");
  EXPECT_EQ(t4.matrix_flops(DType::fp32, true), t4.fp32_flops);
}

TEST(DeviceSpec, ThisMachine) {
  const DeviceSpec cpu = host_cpu();
  EXPECT_EQ(cpu.kind, DeviceKind::cpu);
  EXPECT_GE(cpu.num_units, 1);
  EXPECT_GT(cpu.memory_bytes, size_t{1} << 28);
  EXPECT_GT(cpu.fp32_flops, 0);
  EXPECT_GT(cpu.bandwidth, 0);
}

}  // namespace
}  // namespace gradmill
