// SPDX-License-Identifier: Apache-2.0
#include "train/run_report.h"

#include <gtest/gtest.h>

#include "cuda/devices.h"

namespace gradmill {
namespace {

Feature feature(const RunConfig& config, std::string_view name) {
  for (const Feature& each : run_features(config)) {
    if (each.name == name) return each;
  }
  ADD_FAILURE() << "no feature " << name;
  return {};
}

RunConfig on(const std::string& device) {
  RunConfig config;
  config.machine.device = device;
  return config;
}

TEST(RunFeatures, AMatrixOfAllScoresIsNoFlashAttention) {
  RunConfig config = on("rtx3090");
  EXPECT_TRUE(feature(config, "flash attention").active);
  config.attention.backend = "math";
  EXPECT_FALSE(feature(config, "flash attention").active);
  // The setting applies to GPUs: the CPU has only one implementation.
  config.machine.device = "cpu";
  EXPECT_TRUE(feature(config, "flash attention").active);
}

TEST(RunFeatures, Tf32OnlyWhereThereAreFp32Products) {
  RunConfig config = on("rtx3090");
  EXPECT_EQ(feature(config, "tf32").detail_or_reason, "inactive: no FP32 GEMMs");
  config.machine.dtype = "tf32";
  EXPECT_TRUE(feature(config, "tf32").active);
  config.machine.device = "t4";
  EXPECT_FALSE(feature(config, "tf32").active);
}

TEST(RunFeatures, AnOldGpuSaysThatItHasFp16) {
  EXPECT_EQ(feature(on("rtx3090"), "precision").detail_or_reason, "bf16");
  RunConfig config = on("t4");
  EXPECT_NE(feature(config, "precision").detail_or_reason.find("fp32; this GPU's matrix units support fp16"),
            std::string::npos);
  config.machine.dtype = "bf16";
  EXPECT_NE(feature(config, "precision").detail_or_reason.find("machine.dtype=fp16"), std::string::npos);
  config.machine.dtype = "fp16";
  EXPECT_EQ(feature(config, "precision").detail_or_reason, "fp16");
}

// A user who asked for the CPU needs no reason; one who asked for any device is told why it is the CPU.
TEST(RunFeatures, SaysWhyTheCpuIsUsed) {
  if (!cuda::present_devices().empty()) GTEST_SKIP() << "there is a GPU here";
  const std::string chosen = feature(on("auto"), "device").detail_or_reason;
  EXPECT_NE(chosen.find(cuda::why_no_gpu()), std::string::npos) << chosen;
  const std::string asked = feature(on("cpu"), "device").detail_or_reason;
  EXPECT_EQ(asked.find("no GPU"), std::string::npos) << asked;
}

}  // namespace
}  // namespace gradmill
