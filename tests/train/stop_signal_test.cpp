// SPDX-License-Identifier: Apache-2.0
#include "train/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "cpu/gemm.h"

namespace gradmill {
namespace {

using std::chrono::milliseconds;

bool blocks_stop_signals() {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, SIGINT) == 1 && sigismember(&blocked, SIGTERM) == 1 &&
         sigismember(&blocked, SIGUSR1) == 1;
}

TEST(StopSignal, IsSeenAndNamed) {
  StopSignal::install();
  StopSignal::clear();
  EXPECT_FALSE(StopSignal::requested());
  kill(getpid(), SIGTERM);
  for (int wait = 0; wait < 2000 && !StopSignal::requested(); ++wait) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(StopSignal::requested());
  EXPECT_STREQ(StopSignal::name(), "SIGTERM");
  StopSignal::clear();
}

TEST(StopSignal, NoComputingThreadTakesOne) {
  StopSignal::install();
  EXPECT_TRUE(blocks_stop_signals());
  std::thread([] { EXPECT_TRUE(blocks_stop_signals()); }).join();
}

// oneDNN's kernel for this GEMM sets the stack register to its heap buffer: a signal handled there would write its
// frame over the heap.
TEST(StopSignal, MatrixProductsSurviveAStormOfSignals) {
  StopSignal::install();
  constexpr int64_t m = 128, n = 384, k = 1024;
  std::vector<float> a(m * k), b(k * n), first(m * n), again(m * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 17) - 8;
  for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 13) - 6;
  const auto multiply = [&](std::vector<float>& c) {
    cpu::gemm_tile({.transpose_a = true,
                    .transpose_b = true,
                    .m = m,
                    .n = n,
                    .k = k,
                    .a = a.data(),
                    .lda = m,
                    .b = b.data(),
                    .ldb = k,
                    .c = c.data(),
                    .ldc = n});
  };
  multiply(first);
  std::atomic<bool> done{false};
  std::thread storm([&] {
    while (!done) {
      kill(getpid(), SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  bool same = true;
  const auto end = std::chrono::steady_clock::now() + milliseconds(1000);
  while (std::chrono::steady_clock::now() < end) {
    multiply(again);
    same &= again == first;
  }
  done = true;
  storm.join();
  EXPECT_TRUE(same);
  StopSignal::clear();
}

}  // namespace
}  // namespace gradmill
