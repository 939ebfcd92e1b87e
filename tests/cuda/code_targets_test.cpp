// SPDX-License-Identifier: Apache-2.0
#include "cuda/code_targets.h"

#include <gtest/gtest.h>

namespace gradmill::cuda {
namespace {

constexpr const char* kAll = "75-real,80-real,86-real,89-real,90a-real,120a-real,90-virtual";

TEST(CodeTargets, MachineCodeRunsWithinItsGeneration) {
  EXPECT_EQ(why_no_code("86-real", 86), "");
  EXPECT_EQ(why_no_code("86-real", 89), "");
  EXPECT_NE(why_no_code("86-real", 80), "");
  EXPECT_NE(why_no_code("86-real", 90), "");
}

TEST(CodeTargets, CodeOfOneGenerationRunsThereOnly) {
  EXPECT_EQ(why_no_code("90a-real", 90), "");
  for (const int other : {75, 86, 89, 100, 120}) EXPECT_NE(why_no_code("90a-real", other), "") << other;
  EXPECT_EQ(why_no_code("120a-real", 120), "");
  EXPECT_NE(why_no_code("120a-real", 121), "");
}

TEST(CodeTargets, DriversCompileForWhatIsNewer) {
  EXPECT_EQ(why_no_code("90-virtual", 100), "");
  EXPECT_EQ(why_no_code("80", 120), "");
  EXPECT_NE(why_no_code("90-virtual", 89), "");
}

TEST(CodeTargets, EveryGpuFromTuringOn) {
  for (const int capability : {75, 80, 86, 87, 89, 90, 100, 103, 120, 121}) {
    EXPECT_EQ(why_no_code(kAll, capability), "") << capability;
  }
}

TEST(CodeTargets, SaysWhatItHasAndWhatHelps) {
  const std::string old = why_no_code(kAll, 70);
  EXPECT_NE(old.find("compute capability 7.0"), std::string::npos) << old;
  EXPECT_NE(old.find("7.5, 8.0, 8.6, 8.9, 9.0, 12.0 and newer"), std::string::npos) << old;
  EXPECT_NE(old.find("none for GPUs before 7.5"), std::string::npos) << old;
  EXPECT_EQ(old.find("make CUDA=on"), std::string::npos) << old;
  const std::string other = why_no_code("90a-real", 89);
  EXPECT_NE(other.find("code for 9.0; 'make CUDA=on'"), std::string::npos) << other;
}

// If only CMake knows the meaning, the driver has to refuse.
TEST(CodeTargets, WordsSayNothing) {
  EXPECT_EQ(why_no_code("native", 86), "");
  EXPECT_EQ(describe_targets("native"), "the GPU it was built for");
}

}  // namespace
}  // namespace gradmill::cuda
