// SPDX-License-Identifier: Apache-2.0
#include "cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "cpu/reduce.h"

namespace gradmill::cpu {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {
 protected:
  ThreadPool pool_{GetParam()};
};

TEST_P(ThreadPoolTest, EveryTaskRunsOnce) {
  EXPECT_EQ(pool_.num_threads(), GetParam());
  for (int64_t count : {0, 1, 2, 3, 7, 8, 1000}) {
    std::vector<int> runs(static_cast<size_t>(count));  // no two tasks share an element
    pool_.run(count, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
    EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(count), 1)) << count << " tasks";
  }
}

// Looks for a race in which a worker of one run sees the tasks of the next.
TEST_P(ThreadPoolTest, ManyTinyRuns) {
  int64_t expected = 0;
  std::vector<int64_t> sums(3);
  for (int64_t run = 0; run < 1000; ++run) {
    const int64_t count = 1 + run % 3;
    pool_.run(count, [&](int64_t i) { sums[static_cast<size_t>(i)] += run; });
    expected += count * run;
    ASSERT_EQ(sums[0] + sums[1] + sums[2], expected) << "run " << run;
  }
}

TEST_P(ThreadPoolTest, ATasksExceptionReachesTheCaller) {
  for (int64_t bad : {0, 17, 63}) {
    try {
      pool_.run(64, [&](int64_t i) {
        if (i == bad) throw std::runtime_error("task " + std::to_string(i));
      });
      FAIL() << "the exception was lost";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "task " + std::to_string(bad));
    }
  }
  int64_t sum = 0;
  EXPECT_THROW(pool_.run(64, [](int64_t) { throw std::runtime_error("all"); }), std::runtime_error);
  std::vector<int64_t> squares(64);
  pool_.run(64, [&](int64_t i) { squares[static_cast<size_t>(i)] = i * i; });  // the pool still works
  for (int64_t value : squares) sum += value;
  EXPECT_EQ(sum, 63 * 64 * 127 / 6);
}

TEST_P(ThreadPoolTest, ParallelForCoversTheRange) {
  for (int64_t size : {0, 1, 9, 10, 11, 100}) {
    std::vector<int> runs(static_cast<size_t>(size));
    parallel_for(pool_, size, 10, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(begin % 10, 0);
      EXPECT_LE(end - begin, 10);
      for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
    });
    EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(size), 1)) << size;
  }
}

TEST_P(ThreadPoolTest, PartialsAreAddedInOrder) {
  constexpr int64_t kCount = 5, kSize = 700;
  std::vector<float> partials(kCount * kSize), expected(kSize), out(kSize, std::numeric_limits<float>::quiet_NaN());
  for (int64_t i = 0; i < kCount * kSize; ++i) {
    partials[static_cast<size_t>(i)] = 1.0f / float(i + 1);
    expected[static_cast<size_t>(i % kSize)] += partials[static_cast<size_t>(i)];
  }
  add_partials(pool_, partials.data(), kCount, kSize, out.data(), 0);
  EXPECT_EQ(out, expected);
  for (float& value : expected) value += 0.5f * value;
  add_partials(pool_, partials.data(), kCount, kSize, out.data(), 0.5f);
  EXPECT_EQ(out, expected);
}

INSTANTIATE_TEST_SUITE_P(Cpu, ThreadPoolTest, testing::Range(1, 8));

TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (int round = 0; round < 20; ++round) ThreadPool(3);
}

}  // namespace
}  // namespace gradmill::cpu
