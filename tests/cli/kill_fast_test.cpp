// SPDX-License-Identifier: Apache-2.0
// A run that is killed several times, and signals in every part of a run.
#include <sstream>

#include "cli/kill_test.h"

namespace gradmill::test {
namespace {

TEST_F(KillTest, KilledRunsEndLikeUninterruptedOnes) {
  finish("whole");
  const std::string expected = result("whole");
  ASSERT_FALSE(expected.empty());
  for (uint32_t seed : {1u, 2u, 3u}) expect_survives("run" + std::to_string(seed), 6, seed, expected);
}

// Signals during start-up, steps, evaluations, saves and the end. Whenever a signal comes, the run ends soon, and
// resuming from its checkpoint leads to the same weights.
TEST_F(KillTest, SignalsAtAnyTimeSaveAndExitWith130) {
  finish("whole");
  const int signals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
  int saved = 0;
  for (int i = 0; i < 24; ++i) {
    const std::string run = "signal" + std::to_string(i);
    const pid_t child = start(run, "");
    std::this_thread::sleep_for(std::chrono::milliseconds(4 * i));
    const auto sent = std::chrono::steady_clock::now();
    kill(child, signals[i % 4]);
    const int status = wait_for(child);
    EXPECT_LT(std::chrono::steady_clock::now() - sent, std::chrono::seconds(30));
    // Before the handler is installed, the signal kills the process. After the last step, nothing can be interrupted.
    const bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const bool interrupted = WIFEXITED(status) && WEXITSTATUS(status) == 130;
    EXPECT_TRUE(done || interrupted || WIFSIGNALED(status)) << "status " << status << "\n" << read(run + ".log");
    if (interrupted) {
      ++saved;
      EXPECT_GE(newest_step(run), 0) << read(run + ".log");
    }
    finish(run);
    EXPECT_TRUE(result(run) == result("whole")) << run;
  }
  EXPECT_GE(saved, 3);
}

// nohup starts a run with this signal ignored: the run continues when its terminal is closed.
TEST_F(KillTest, AnIgnoredHangUpStaysIgnored) {
  signal(SIGHUP, SIG_IGN);
  const pid_t child = start("nohup", "");
  signal(SIGHUP, SIG_DFL);
  for (int i = 0; i < 20; ++i) {
    kill(child, SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  const int status = wait_for(child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status << "\n" << read("nohup.log");
}

TEST_F(KillTest, ARunOutlivesTheReaderOfItsLines) {
  finish("whole");
  const std::string lines = "logging.progress=lines";
  EXPECT_EQ(finish_in_shell("piped", lines + " 2>&1 | head -1 >/dev/null"), 0);
  EXPECT_TRUE(result("piped") == result("whole"));
}

TEST_F(KillTest, ClosedStreamsDoNotBecomeFilesOfTheRun) {
  finish("whole");
  for (const std::string closed : {"<&- >&- 2>&-", ">&-", "<&- 2>&-"}) {
    const std::string run = "closed" + std::to_string(closed.size());
    EXPECT_EQ(finish_in_shell(run, "logging.progress=lines " + closed), 0);
    EXPECT_TRUE(result(run) == result("whole")) << closed;
    std::istringstream metrics(read(run + "/metrics.jsonl"));
    for (std::string line; std::getline(metrics, line);) EXPECT_EQ(line.substr(0, 1), "{") << closed;
    EXPECT_EQ(read(run + "/.lock").substr(0, 8), "process ") << closed;
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
