// SPDX-License-Identifier: Apache-2.0
#include "core/host_memory.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

constexpr const char* kMeminfo = "MemTotal:       8000 kB\nMemAvailable:   4000 kB\nSwapFree:       1000 kB\n";

TEST(HostMemory, CountsWhatCanBeFreedAndSwap) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMeminfo);
  EXPECT_EQ(available_host_memory(root.path()), size_t{5000} * 1024);
}

TEST(HostMemory, AContainerHasWhatItsLimitLeaves) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/memory.current", "600000\n");
  root.write("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 50000\n");
  EXPECT_EQ(available_host_memory(root.path()), 450000u);
}

TEST(HostMemory, TheTightestOfAllGroupsCounts) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/cgroup", "0::/outer/inner\n");
  root.write("sys/fs/cgroup/outer/memory.max", "700\n");
  root.write("sys/fs/cgroup/outer/memory.current", "300\n");
  root.write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  root.write("sys/fs/cgroup/outer/inner/memory.current", "200\n");
  EXPECT_EQ(available_host_memory(root.path()), 400u);
  // The group is already over its limit: nothing remains, and the result must not wrap around.
  root.write("sys/fs/cgroup/outer/memory.current", "800\n");
  EXPECT_EQ(available_host_memory(root.path()), 0u);
}

TEST(HostMemory, UnknownWithoutAKernelThatSays) {
  const TemporaryFolder root;
  EXPECT_EQ(available_host_memory(root.path()), std::nullopt);
}

TEST(HostMemory, ThisMachine) {
  const std::optional<size_t> available = available_host_memory();
  ASSERT_TRUE(available);
  EXPECT_GT(*available, size_t{1} << 24);
}

}  // namespace
}  // namespace gradmill::test
