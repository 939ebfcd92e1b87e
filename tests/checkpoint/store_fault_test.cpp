// SPDX-License-Identifier: Apache-2.0
// Checkpoints with faults: damaged bits, full and broken disks, and processes killed at each system call.
#include <sys/wait.h>

#include <csignal>
#include <functional>
#include <random>

#include "checkpoint/store.h"
#include "checkpoint/store_fixture.h"

namespace gradmill::test {
namespace {

class StoreFaultTest : public StoreTest {
 protected:
  // A fresh run with checkpoints of steps 1 to `count`; step s has seed s.
  CheckpointStore make_run(int count) {
    std::filesystem::remove_all(checkpoints());
    CheckpointStore store(run_);
    for (int step = 1; step <= count; ++step) store.save(SmallState(step).write(step));
    return store;
  }

  bool has_temporaries() const {
    const auto names = entries();
    return std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.front() == '.'; });
  }

  // Runs the action in a process that is killed at its system call number `call`. False if it ended before that.
  static bool killed_at(int64_t call, const std::function<void(FileOps&)>& action) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        FaultyFileOps ops(real_file_ops(), {Fault::Kind::kill, call});
        action(ops);
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    return false;
  }
};

TEST_F(StoreFaultTest, EveryFlippedBitIsDetected) {
  CheckpointStore store = make_run(2);
  SmallState old(1), state(2);
  std::vector<std::pair<std::filesystem::path, std::string>> files;
  size_t total = 0;
  for (const auto& entry : std::filesystem::directory_iterator(step_folder(2))) {
    files.emplace_back(entry.path(), read(entry.path()));
    total += files.back().second.size();
  }
  ASSERT_EQ(files.size(), 5u);
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 1000; ++trial) {
    size_t bit = random() % (total * 8), index = 0;
    while (bit >= files[index].second.size() * 8) bit -= files[index++].second.size() * 8;
    const auto& [path, good] = files[index];
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    overwrite(path, bad);
    const std::string message = message_of([&] { store.open(2); }, ExitCode::data);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, step_folder(2).string(), message) << path << " bit " << bit;
    std::vector<std::string> skipped;
    const std::optional<Checkpoint> found = store.newest(&skipped);
    ASSERT_TRUE(found);
    EXPECT_TRUE(old.matches(*found));
    EXPECT_EQ(skipped, std::vector<std::string>{message});
    overwrite(path, good);
  }
  EXPECT_TRUE(state.matches(store.newest().value()));
}

TEST_F(StoreFaultTest, AFullDiskLeavesTheOldCheckpoint) {
  make_run(1);
  FaultyFileOps counter(real_file_ops());
  SmallState old(1), state(2);
  CheckpointStore(run_, counter).save(state.write(2));
  const int64_t total = counter.bytes_written();
  ASSERT_GE(total, 100);
  for (const int64_t step : {2, 1}) {  // a new step, and one that replaces the old
    for (int64_t trial = 0; trial < 100; ++trial) {
      make_run(1);
      FaultyFileOps ops(real_file_ops(), {Fault::Kind::fail_writes, trial * total / 100, ENOSPC});
      CheckpointStore store(run_, ops);
      const std::string message = message_of([&] { store.save(state.write(step)); }, ExitCode::failure);
      EXPECT_PRED_FORMAT2(testing::IsSubstring, "No space left on device; it needs ", message);
      EXPECT_PRED_FORMAT2(testing::IsSubstring, " are free; older checkpoints are unchanged", message);
      EXPECT_PRED_FORMAT2(testing::IsSubstring, checkpoints().string(), message);
      EXPECT_FALSE(has_temporaries());
      EXPECT_TRUE(old.matches(store.newest().value()));
    }
  }
  FaultyFileOps enough(real_file_ops(), {Fault::Kind::fail_writes, total, ENOSPC});
  CheckpointStore(run_, enough).save(state.write(2));
  EXPECT_TRUE(state.matches(CheckpointStore(run_).newest().value()));
}

TEST_F(StoreFaultTest, AnyFailingCallLeavesAWholeCheckpoint) {
  SmallState old(1), state(2);
  for (const int64_t step : {2, 1}) {
    int64_t call = 1;
    for (bool failed = true; failed; ++call) {
      make_run(1);
      FaultyFileOps ops(real_file_ops(), {Fault::Kind::fail, call, EIO});
      const std::string message =
          message_of([&] { CheckpointStore(run_, ops).save(state.write(step)); }, ExitCode::failure);
      failed = ops.num_calls() >= call;
      CheckpointStore store(run_);
      const Checkpoint newest = store.newest().value();
      if (message == "no error") {
        EXPECT_TRUE(state.matches(newest)) << call;
      } else {
        EXPECT_PRED_FORMAT2(testing::IsSubstring, "Input/output error", message);
        EXPECT_TRUE(old.matches(newest) || state.matches(newest)) << call;
      }
      EXPECT_TRUE(step == 1 || old.matches(store.open(1)));
      store.clean_temporaries();
      EXPECT_EQ(store.newest()->state_json(), newest.state_json());
      store.save(state.write(step));  // the disk works again
      EXPECT_TRUE(state.matches(store.open(step)));
      EXPECT_FALSE(has_temporaries());
    }
    EXPECT_GT(call, 20);
  }
}

TEST_F(StoreFaultTest, AKillAtAnyCallOfASaveLeavesAWholeCheckpoint) {
  SmallState old(1), state(2);
  for (const int64_t step : {2, 1}) {
    bool saved = false;
    int64_t call = 1;
    for (;; ++call) {
      make_run(1);
      const bool killed = killed_at(call, [&](FileOps& ops) { CheckpointStore(run_, ops).save(state.write(step)); });
      CheckpointStore store(run_);
      std::vector<std::string> skipped;
      const Checkpoint found = store.newest(&skipped).value();
      EXPECT_TRUE(skipped.empty());
      EXPECT_TRUE(state.matches(found) || (!saved && old.matches(found))) << "call " << call;
      saved = state.matches(found);
      EXPECT_TRUE(step == 1 || old.matches(store.open(1)));
      store.clean_temporaries();
      EXPECT_EQ(store.newest()->state_json(), found.state_json());
      // The run continues: the same save again.
      store.save(state.write(step));
      EXPECT_TRUE(state.matches(store.open(step)));
      EXPECT_FALSE(has_temporaries());
      if (!killed) break;
    }
    EXPECT_TRUE(saved);
    EXPECT_GT(call, 20);
  }
}

TEST_F(StoreFaultTest, AReplacedStateIsTheOldOrTheNewOneWhateverFails) {
  SmallState state(1);
  const auto newest = [&] {
    const Checkpoint found = CheckpointStore(run_).newest().value();
    EXPECT_EQ(*found.tensor("state.safetensors", "count").ptr<int32_t>(), 1);
    EXPECT_EQ(found.text("config.json"), "{\"seed\":1}\n");
    return found.state_json();
  };
  constexpr const char* kOther = R"({"other":2})";
  bool replaced = false;
  for (int64_t call = 1; !replaced; ++call) {
    make_run(1);
    FaultyFileOps ops(real_file_ops(), {Fault::Kind::fail, call, EIO});
    const std::string message =
        message_of([&] { CheckpointStore(run_, ops).replace_state(1, kOther); }, ExitCode::failure);
    replaced = ops.num_calls() < call;
    EXPECT_TRUE(newest() == kOther || (!replaced && state.matches(CheckpointStore(run_).open(1)))) << message;
  }
  for (int64_t call = 1;; ++call) {
    make_run(1);
    const bool killed = killed_at(call, [&](FileOps& ops) { CheckpointStore(run_, ops).replace_state(1, kOther); });
    EXPECT_TRUE(newest() == kOther || (killed && state.matches(CheckpointStore(run_).open(1)))) << call;
    CheckpointStore store(run_);
    store.clean_temporaries();
    store.replace_state(1, kOther);  // the same again
    EXPECT_EQ(newest(), kOther);
    EXPECT_FALSE(has_temporaries());
    if (!killed) break;
  }
}

TEST_F(StoreFaultTest, AKillDuringTheFirstSaveLeavesNothingOrAll) {
  SmallState state(1);
  for (int64_t call = 1;; ++call) {
    std::filesystem::remove_all(checkpoints());
    const bool killed = killed_at(call, [&](FileOps& ops) { CheckpointStore(run_, ops).save(state.write(1)); });
    const std::optional<Checkpoint> found = CheckpointStore(run_).newest();
    EXPECT_TRUE(!found || state.matches(*found));
    if (killed) continue;
    EXPECT_TRUE(found);
    break;
  }
}

TEST_F(StoreFaultTest, AKillAtAnyCallOfAPruneLeavesOnlyWholeOnes) {
  for (int64_t call = 1;; ++call) {
    make_run(4);
    // A replaced checkpoint that a killed save left, for a step that is removed.
    std::filesystem::copy(step_folder(1), checkpoints() / ".replaced-step-00000001");
    const bool killed = killed_at(call, [&](FileOps& ops) { CheckpointStore(run_, ops).prune(1, 2); });
    CheckpointStore store(run_);
    const std::vector<int64_t> steps = store.steps();
    for (const int64_t step : steps) EXPECT_TRUE(SmallState(static_cast<int>(step)).matches(store.open(step)));
    EXPECT_EQ(store.newest()->step(), 4);
    EXPECT_TRUE(std::binary_search(steps.begin(), steps.end(), 2));
    store.prune(1, 2);
    store.clean_temporaries();
    EXPECT_EQ(entries(), (std::vector<std::string>{"step-00000002", "step-00000004"}));
    if (killed) continue;
    EXPECT_EQ(steps, (std::vector<int64_t>{2, 4}));
    EXPECT_GT(call, 10);
    break;
  }
}

TEST_F(StoreFaultTest, PermissionDenied) {
  SmallState old(1), state(2);
  make_run(1);
  namespace fs = std::filesystem;
  fs::permissions(checkpoints(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_all);
  fs::permissions(checkpoints(), fs::perms::others_write, fs::perm_options::remove);
  const bool root = ::geteuid() == 0;  // root may write anywhere, so become another user
  ASSERT_EQ(root ? ::seteuid(65534) : 0, 0);
  const std::string message = message_of([&] { CheckpointStore(run_).save(state.write(2)); }, ExitCode::failure);
  ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
  fs::permissions(checkpoints(), fs::perms::owner_all);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "step 2: " + checkpoints().string(), message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "Permission denied; older checkpoints are unchanged; make", message);
  EXPECT_TRUE(old.matches(CheckpointStore(run_).newest().value()));
  EXPECT_NE(message_of([&] { CheckpointStore(run_ / "absent").save(state.write(2)); }, ExitCode::failure), "no error");
}

TEST_F(StoreFaultTest, FaultsByName) {
  EXPECT_EQ(parse_fault("kill:12").kind, Fault::Kind::kill);
  EXPECT_EQ(parse_fault("kill:12").at, 12);
  EXPECT_EQ(parse_fault("eio:3").reason, EIO);
  EXPECT_EQ(parse_fault("enospc:0").kind, Fault::Kind::fail_writes);
  for (const char* text : {"", "kill", "kill:", "kill:x", "kill:-1", "kill:1x", "burn:1", ":", "kill:1:1"}) {
    EXPECT_NE(message_of([&] { parse_fault(text); }, ExitCode::usage), "no error") << text;
  }
}

// As in a test of the whole binary: a newly started process reads the variable.
TEST_F(StoreFaultTest, FaultsFromTheEnvironment) {
  if (const char* folder = std::getenv("GRADMILL_TEST_SAVE_IN")) {
    CheckpointStore(folder).save(SmallState(2).write(2));
    return;
  }
  make_run(1);
  const auto status_with = [&](const std::string& fault) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("GRADMILL_FAULT", fault.c_str(), 1);
      ::setenv("GRADMILL_TEST_SAVE_IN", run_.c_str(), 1);
      ::freopen("/dev/null", "w", stdout);
      ::execl("/proc/self/exe", "checkpoint_test", "--gtest_filter=StoreFaultTest.FaultsFromTheEnvironment", nullptr);
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    std::filesystem::remove_all(folder_of_process(child));  // a killed process leaves its folder
    return status;
  };
  const int killed = status_with("kill:10");
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
  EXPECT_EQ(CheckpointStore(run_).newest()->step(), 1);
  const int full = status_with("enospc:100");
  EXPECT_TRUE(WIFEXITED(full) && WEXITSTATUS(full) == 1);
  EXPECT_EQ(CheckpointStore(run_).newest()->step(), 1);
  EXPECT_EQ(status_with("kill:100000"), 0);
  EXPECT_EQ(CheckpointStore(run_).newest()->step(), 2);
}

}  // namespace
}  // namespace gradmill::test
