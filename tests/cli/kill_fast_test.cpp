// SPDX-License-Identifier: Apache-2.0
// A run that is killed a few times, and signals in every part of a run.
#include "cli/kill_test.h"

namespace gradmill::test {
namespace {

TEST_F(KillTest, KilledRunsEndLikeUninterruptedOnes) {
  finish("whole");
  const std::string expected = result("whole");
  ASSERT_FALSE(expected.empty());
  for (uint32_t seed : {1u, 2u, 3u}) expect_survives("run" + std::to_string(seed), 6, seed, expected);
}

TEST_F(KillTest, SignalsSaveAndExitWith130) {
  finish("whole");
  for (int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    const std::string run = "signal" + std::to_string(signal);
    bool interrupted = false;
    for (int delay = 1; delay < 200 && !interrupted; delay += 7) {
      const pid_t child = start(run, "");
      std::this_thread::sleep_for(std::chrono::milliseconds(delay));
      kill(child, signal);
      const int status = wait_for(child);
      // Before the handler stands the signal ends the process; after the last step there is nothing to interrupt.
      interrupted = WIFEXITED(status) && WEXITSTATUS(status) == 130;
      if (interrupted) {
        EXPECT_GE(newest_step(run), 0) << read(run + ".log");
      }
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) std::filesystem::remove_all(folder_.path() / run);
    }
    EXPECT_TRUE(interrupted) << signal;
    finish(run);
    EXPECT_TRUE(result(run) == result("whole")) << signal;
  }
}

TEST_F(KillTest, AFullDiskKeepsTheOldCheckpoint) {
  const int status = wait_for(start("full", "enospc:200000"));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  EXPECT_NE(read("full.log").find("free"), std::string::npos) << read("full.log");
  EXPECT_GT(newest_step("full"), 0);
  finish("full");
}

}  // namespace
}  // namespace gradmill::test
