// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/occupancy.h"

#include <gtest/gtest.h>

#include "paper_gpu/kernel_names.h"

namespace gradmill::paper {
namespace {

TEST(OccupancyTest, ThreadsSharedMemoryAndRegistersLimit) {
  const Multiprocessor& hopper = multiprocessor(90);
  EXPECT_EQ(blocks_that_fit(hopper, {.threads = 32}), 32u);
  EXPECT_EQ(blocks_that_fit(hopper, {.threads = 256}), 8u);
  EXPECT_EQ(blocks_that_fit(hopper, {.threads = 1000}), 2u);
  EXPECT_EQ(blocks_that_fit(hopper, {.threads = 128, .shared_bytes = 56 * 1024}), 4u);
  EXPECT_EQ(blocks_that_fit(hopper, {.threads = 128, .shared_bytes = 227 * 1024}), 1u);
  EXPECT_EQ(blocks_that_fit(hopper, {.threads = 128, .shared_bytes = 228 * 1024}), 0u);
  EXPECT_EQ(blocks_that_fit(hopper, {.threads = 256, .registers = 64}), 4u);
  EXPECT_EQ(blocks_that_fit(hopper, {.threads = 384, .registers = 168}), 1u);
  EXPECT_EQ(blocks_that_fit(hopper, {.threads = 1024, .registers = 65}), 0u);
  EXPECT_EQ(blocks_that_fit(multiprocessor(75), {.threads = 256}), 4u);
  EXPECT_EQ(blocks_that_fit(multiprocessor(86), {.threads = 256}), 6u);
}

TEST(OccupancyTest, UnknownKernelsHaveNoRegisters) {
  EXPECT_FALSE(recorded_registers("no_such_kernel<float>", 90).has_value());
}

TEST(KernelNamesTest, InstantiationsKeepTheirArguments) {
  EXPECT_EQ(instance_name("_ZN8gradmill50_GLOBAL__N__1a2b3c4d_12_norm_cuda_cu_5e6f7a8b_12343addIfLi4EEEvPT_"),
            "add<float, 4>");
  EXPECT_EQ(instance_name("plain"), "plain");
}

}  // namespace
}  // namespace gradmill::paper
