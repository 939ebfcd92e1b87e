// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/run_lock.h"

#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <optional>

#include "checkpoint/store_fixture.h"

namespace gradmill::test {
namespace {

class RunLockTest : public StoreTest {};

TEST_F(RunLockTest, KeepsASecondTrainerOut) {
  std::optional<RunLock> first(run_);
  EXPECT_TRUE(first->held());
  first->sign();
  const std::string message = message_of([&] { RunLock second(run_); }, ExitCode::usage);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, run_.string() + ": another trainer uses this run folder", message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, fmt::format("process {} on", ::getpid()), message);
  first.reset();
  EXPECT_TRUE(RunLock(run_).held());
}

TEST_F(RunLockTest, GoesWithAKilledProcess) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    RunLock lock(run_);
    lock.sign();
    const bool told = ::write(ready[1], "x", 1) == 1;
    for (;;) ::sleep(told ? 60 : 0);
  }
  char letter = 0;
  ASSERT_EQ(::read(ready[0], &letter, 1), 1);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, fmt::format("process {} on", child),
                      message_of([&] { RunLock second(run_); }, ExitCode::usage));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(RunLock(run_).held());
  ::close(ready[0]);
  ::close(ready[1]);
}

// A trainer that is refused after taking the lock leaves the file unchanged.
TEST_F(RunLockTest, ChangesNoByteUnlessItSigns) {
  EXPECT_FALSE(RunLock::is_known(run_));
  RunLock(run_).sign();
  EXPECT_TRUE(RunLock::is_known(run_));
  const auto content = [&] {
    std::ifstream file(run_ / ".lock");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::ofstream(run_ / ".lock") << "process 1 on another";
  { const RunLock lock(run_); }
  EXPECT_EQ(content(), "process 1 on another");
  RunLock(run_).sign();
  EXPECT_NE(content().find(fmt::format("process {} on", ::getpid())), std::string::npos);
}

TEST_F(RunLockTest, NeedsAFolder) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "absent/.lock: cannot open: No such file",
                      message_of([&] { RunLock lock(run_ / "absent"); }, ExitCode::failure));
}

}  // namespace
}  // namespace gradmill::test
