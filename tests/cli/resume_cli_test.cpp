// SPDX-License-Identifier: Apache-2.0
// Refused commands must change nothing; also which run is resumed, and damaged checkpoints.
#include <fcntl.h>
#include <sys/file.h>

#include <map>

#include "cli/cli_fixture.h"

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTinyRun =
    "data.max_chars=20000 model.layers=1 model.heads=2 model.width=16 model.context=16 training.steps=12 "
    "training.batch_size=4 eval.every_steps=0 checkpoint.every_steps=3 sample.tokens=0 eval.tokens=64 "
    "machine.device=cpu ";

class ResumeCliTest : public CliTest {
 protected:
  fs::path work(const std::string& name) const { return folder_ / "work" / name; }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Every file below a folder, with its contents.
  static std::map<std::string, std::string> files_in(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files[entry.path().string()] = read(entry.path());
    }
    return files;
  }
  void train(const std::string& settings) const {
    const Outcome run = gradmill("train " + std::string(kTinyRun) + settings);
    ASSERT_EQ(run.code, 0) << run.output;
  }
  void expect_refused(const std::string& arguments, int code, const std::string& part) const {
    const auto before = files_in(folder_ / "work");
    const Outcome outcome = gradmill(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << arguments << "\n" << outcome.output;
    EXPECT_EQ(files_in(folder_ / "work"), before) << arguments;
  }
  void expect_says(const std::string& arguments, const std::string& part) const {
    const Outcome outcome = gradmill(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << arguments << "\n" << outcome.output;
  }
  void replace(const fs::path& path, const std::string& from, const std::string& to) const {
    std::string text = read(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " is not in\n" << text;
    std::ofstream(path, std::ios::binary) << text.replace(at, from.size(), to);
  }
};

// Holds the lock like another trainer.
class HeldLock {
 public:
  explicit HeldLock(const fs::path& run) : descriptor_(open((run / ".lock").c_str(), O_RDWR | O_CREAT, 0666)) {
    EXPECT_EQ(flock(descriptor_, LOCK_EX | LOCK_NB), 0);
  }
  ~HeldLock() { close(descriptor_); }

 private:
  int descriptor_;
};

TEST_F(ResumeCliTest, ARefusedResumeChangesNoByte) {
  train("checkpoint.dir=run");
  for (const char* setting : {"model.width=32", "model.layers=2", "model.context=32", "model.style=llama"}) {
    expect_refused(std::string("train --resume run ") + setting, 4, "step-00000012");
  }
  expect_says("train --resume run training.steps=14", "training.steps was 12, now 14");
}

TEST_F(ResumeCliTest, ARunInProgressIsLeftAlone) {
  train("checkpoint.dir=run");
  {
    const HeldLock lock(work("run"));
    expect_refused("train --resume run optimizer.lr=0.02", 2, "another trainer");
    expect_refused("train --resume auto checkpoint.dir=run optimizer.lr=0.02", 2, "another trainer");
  }
  // Before its first checkpoint.
  fs::remove_all(work("run/checkpoints"));
  const HeldLock lock(work("run"));
  expect_refused("train " + std::string(kTinyRun) + "checkpoint.dir=run training.seed=5", 2, "another trainer");
}

TEST_F(ResumeCliTest, OriginsSurvive) {
  train("checkpoint.dir=run");
  expect_says("train --resume run training.steps=13", "resumed from step 12");
  const std::string config = read(work("run/config.yaml"));
  for (const char* setting : {"\n  max_chars: 20000 ", "\n  steps: 13 "}) {
    const size_t at = config.find(setting);
    ASSERT_NE(at, std::string::npos) << config;
    const std::string line = config.substr(at + 1, config.find('\n', at + 1) - at - 1);
    EXPECT_TRUE(line.ends_with("  # command line")) << line;
  }
  EXPECT_NE(config.find("# default"), std::string::npos) << config;
  EXPECT_EQ(config.find("config.yaml:"), std::string::npos) << config;
}

TEST_F(ResumeCliTest, SettingsAndCheckpointBelongTogether) {
  train("checkpoint.dir=run");
  train("checkpoint.dir=other training.seed=7 optimizer.lr=0.005");
  fs::remove_all(work("run/checkpoints/step-00000012"));
  fs::copy(work("other/checkpoints/step-00000012"), work("run/checkpoints/step-00000012"), fs::copy_options::recursive);
  const Outcome resumed = gradmill("train --resume run training.steps=13");
  for (const char* part : {"training.seed was 7", "optimizer.lr was 0.005"}) {
    EXPECT_NE(resumed.output.find(part), std::string::npos) << resumed.output;
  }
  std::ofstream(work("other/config.yaml")).close();
  expect_refused("train --resume other", 4, "run.yaml");
}

TEST_F(ResumeCliTest, AutoTakesTheRunThatWasStartedLast) {
  train("");
  const fs::path runs = work("runs"), first = fs::directory_iterator(runs)->path();
  // Killed before its first checkpoint.
  const fs::path second = runs / "aaa";
  fs::create_directories(second);
  fs::copy(first / "config.yaml", second / "config.yaml");
  replace(second / "config.yaml", "steps: 12", "steps: 5");
  expect_says("train --resume auto", "no checkpoint yet");
  EXPECT_TRUE(fs::exists(second / "checkpoints/step-00000005"));
  // The run with the last name is not the newest one.
  fs::copy(first, runs / "zoo", fs::copy_options::recursive);
  fs::last_write_time(runs / "zoo/config.yaml", fs::last_write_time(second / "config.yaml") - std::chrono::hours(1));
  expect_says("train --resume auto", "runs/aaa");
}

TEST_F(ResumeCliTest, AutoSaysThatThereIsNothingToResume) {
  expect_says("train --resume auto " + std::string(kTinyRun), "no run to resume");
}

TEST_F(ResumeCliTest, ADamagedNewestCheckpointIsNotPassedOver) {
  train("checkpoint.dir=run checkpoint.keep_last=3");
  std::fstream weights(work("run/checkpoints/step-00000012/model.safetensors"),
                       std::ios::in | std::ios::out | std::ios::binary);
  weights.seekp(-5, std::ios::end).put('\x55');
  weights.close();
  for (const std::string command : {"eval run", "generate run --tokens 4", "export run --to exported"}) {
    expect_refused(command, 4, "--allow-older");
    expect_says(command + " --allow-older", "using step 9");
  }
}

}  // namespace
}  // namespace gradmill::test
