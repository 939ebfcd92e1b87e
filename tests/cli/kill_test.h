// SPDX-License-Identifier: Apache-2.0
// Runs the binary and kills it, to check that nothing is lost. Shared by the fast and the slow test.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.h"

namespace gradmill::test {

class KillTest : public testing::Test {
 protected:
  KillTest() {
    std::ofstream text(folder_.path() / "text.txt");
    for (int i = 0; i < 300; ++i) text << "the miller grinds, the mill turns; " << i << "\n";
  }

  // `gradmill train` in `run`, resuming an existing run.
  static std::vector<std::string> command(const std::string& run) {
    return {GRADMILL_BINARY,
            "train",
            "--resume",
            "auto",
            "checkpoint.dir=" + run,
            "data.dataset=text.txt",
            "model.layers=1",
            "model.heads=2",
            "model.width=16",
            "model.context=16",
            "model.dropout=0.1",
            "training.steps=40",
            "training.batch_size=4",
            "checkpoint.every_steps=5",
            "eval.every_steps=8",
            "eval.tokens=64",
            "sample.tokens=0",
            "logging.every_steps=1",
            "logging.progress=off",
            "machine.threads=1",
            "data.num_workers=1",
            "optimizer.ema_decay=0.9"};
  }

  // Starts it; `fault` is the value of GRADMILL_FAULT.
  pid_t start(const std::string& run, const std::string& fault) const {
    std::vector<std::string> words = command(run);
    const pid_t child = fork();
    if (child != 0) return child;
    if (chdir(folder_.path().c_str()) != 0) _exit(99);
    if (!fault.empty()) setenv("GRADMILL_FAULT", fault.c_str(), 1);
    if (std::freopen("/dev/null", "w", stdout) == nullptr ||
        std::freopen((run + ".log").c_str(), "a", stderr) == nullptr)
      _exit(98);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(97);
  }

  // Runs it in a shell, with `redirected` appended to the command.
  int finish_in_shell(const std::string& run, const std::string& redirected) const {
    std::string line = "cd '" + folder_.path().string() + "' &&";
    for (const std::string& word : command(run)) line += " '" + word + "'";
    return std::system((line + " " + redirected).c_str());
  }

  static int wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  void finish(const std::string& run) const {
    const int status = wait_for(start(run, ""));
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << run << ": status " << status << "\n"
                                                               << read(run + ".log");
  }

  std::string read(const std::filesystem::path& path) const {
    std::ifstream file(folder_.path() / path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // The files of the last checkpoint that training determines: weights and moments.
  std::string result(const std::string& run) const {
    const std::filesystem::path last = std::filesystem::path(run) / "checkpoints/step-00000040";
    return read(last / "model.safetensors") + read(last / "state.safetensors");
  }

  // The newest step among the checkpoints that look complete.
  int64_t newest_step(const std::string& run) const {
    int64_t newest = -1;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / run / "checkpoints", ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-")) newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
    }
    return newest;
  }

  // Kills a run `kills` times, half of them at a system call of a save, then lets it finish. Progress must never
  // decrease.
  void expect_survives(const std::string& run, int kills, uint32_t seed, const std::string& expected) {
    std::mt19937 random(seed);
    int64_t newest = -1;
    for (int kill_number = 0; kill_number < kills; ++kill_number) {
      if (kill_number % 2 == 0) {
        wait_for(start(run, "kill:" + std::to_string(1 + random() % 60)));
      } else {
        const pid_t child = start(run, "");
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
        kill(child, SIGKILL);
        wait_for(child);
      }
      const int64_t now = newest_step(run);
      ASSERT_GE(now, newest) << "a checkpoint was lost at kill " << kill_number;
      newest = now;
    }
    finish(run);
    ASSERT_FALSE(result(run).empty());
    EXPECT_TRUE(result(run) == expected) << run << " ended with other bits than a run that nobody killed";
  }

  TemporaryFolder folder_;
};

}  // namespace gradmill::test
