// SPDX-License-Identifier: Apache-2.0
// The binary as a user meets it: exit codes, one clear line, no files left behind.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string output;  // stdout and stderr
};

// Each test runs in an empty folder of its own and must leave it as it found it.
class CliTest : public testing::Test {
 protected:
  CliTest() {
    folder_ = fs::temp_directory_path() /
              ("gradmill-cli-" + std::to_string(getpid()) + "-" + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_ / "work");
  }
  ~CliTest() override { fs::remove_all(folder_); }

  Outcome gradmill(const std::string& arguments) const {
    const std::string command = "cd '" + (folder_ / "work").string() + "' && env -u GRADMILL_DATA XDG_CACHE_HOME='" +
                                (folder_ / "cache").string() + "' '" GRADMILL_BINARY "' " + arguments + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    std::string output;
    for (char buffer[4096]; size_t count = fread(buffer, 1, sizeof buffer, pipe);) output.append(buffer, count);
    return {WEXITSTATUS(pclose(pipe)), output};
  }

  std::string file(const std::string& name, const std::string& content) const {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return "'" + path.string() + "'";
  }

  void expect_error(const std::string& arguments, int code, const std::string& part) const {
    const Outcome outcome = gradmill(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << arguments << "\n" << outcome.output;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
    EXPECT_TRUE(fs::is_empty(folder_ / "work")) << arguments;
    EXPECT_FALSE(fs::exists(folder_ / "cache")) << arguments;
  }

  fs::path folder_;
};

TEST_F(CliTest, VersionAndHelp) {
  EXPECT_EQ(gradmill("version").code, 0);
  const Outcome help = gradmill("train --help");
  EXPECT_EQ(help.code, 0);
  for (const char* flag : {"--dataset", "--context", "--save-policy", "--threads"}) {
    EXPECT_NE(help.output.find(flag), std::string::npos) << flag;
  }
}

TEST_F(CliTest, UsageMistakes) {
  expect_error("", 2, "--help");
  expect_error("trian", 2, "--help");
  expect_error("train --no-such-flag 3", 2, "--help");
  expect_error("train --steps many", 2, "--steps");
  expect_error("train --steps 0", 2, "--steps is 0");
  expect_error("train --context -1", 2, "--context is -1");
  expect_error("train --batch-size 0", 2, "--batch-size is 0");
  expect_error("train --width -8", 2, "width is -8");
  expect_error("train --threads -1", 2, "--threads is -1");
  expect_error("train --max-chars -1", 2, "--max-chars is -1");
  expect_error("plan --device rtx9999", 2, "rtx5090");
  expect_error("bench step --case giant", 2, "nano, char");
}

TEST_F(CliTest, DataMistakes) {
  expect_error("train --dataset " + file("empty.txt", ""), 4, "empty");
  expect_error("train --dataset " + file("short.txt", "too short"), 4, "characters");
  expect_error("train --dataset " + file("binary.txt", "fine so far \xff\xfe not fine"), 4, "UTF-8");
  expect_error("train --dataset '" + (folder_ / "missing.txt").string() + "'", 4, "missing.txt");
  expect_error("train --dataset '" + folder_.string() + "'", 4, "folder");
  expect_error("train --dataset shakespeare", 4, "--download");
}

TEST_F(CliTest, TrainsOnTheBuiltInText) {
  const Outcome run = gradmill("train --steps 5 --eval-interval 0 --log-interval 1 --max-chars 20000 --sample-tokens 20");
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_NE(run.output.find("validation loss"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("sample:"), std::string::npos) << run.output;
}

TEST_F(CliTest, PlansForAGpuThatIsNotHere) {
  const Outcome plan = gradmill("plan --device h100 --dtype bf16 --style qwen3 --layers 24 --width 768 --heads 12 --kv-heads 4 "
                                "--mlp-width 2048 --context 2048 --batch-size 8 --vocab 32768");
  EXPECT_EQ(plan.code, 0) << plan.output;
  for (const char* part : {"persistent", "train: saved", "layers.*.attention.qkv", "library workspaces", "matmul", "fits"}) {
    EXPECT_NE(plan.output.find(part), std::string::npos) << part << "\n" << plan.output;
  }
}

}  // namespace
}  // namespace gradmill::test
