// SPDX-License-Identifier: Apache-2.0
// Tests the binary as a user runs it: exit codes, one clear line per error, no files left.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace gradmill::test {

struct Outcome {
  int code;
  std::string output;  // stdout and stderr
};

// Each test runs in an empty folder and must leave it empty.
class CliTest : public testing::Test {
 protected:
  CliTest() {
    folder_ = std::filesystem::temp_directory_path() / ("gradmill-cli-" + std::to_string(getpid()) + "-" +
                                                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_ / "work");
  }
  ~CliTest() override { std::filesystem::remove_all(folder_); }

  Outcome gradmill(const std::string& arguments) const {
    const std::string command = "cd '" + (folder_ / "work").string() + "' && env -u GRADMILL_DATA XDG_CACHE_HOME='" +
                                (folder_ / "cache").string() + "' '" GRADMILL_BINARY "' " + arguments + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    std::string output;
    for (char buffer[4096]; size_t count = fread(buffer, 1, sizeof buffer, pipe);) output.append(buffer, count);
    return {WEXITSTATUS(pclose(pipe)), output};
  }

  std::string file(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return "'" + path.string() + "'";
  }

  void expect_error(const std::string& arguments, int code, const std::string& part) const {
    const Outcome outcome = gradmill(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << arguments << "\n" << outcome.output;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "work")) << arguments;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "cache")) << arguments;
  }

  std::filesystem::path folder_;
};

}  // namespace gradmill::test
