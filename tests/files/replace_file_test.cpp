// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include "support/errors.h"
#include "support/temporary_folder.h"
#include "files/faulty_file_ops.h"
#include "files/output_file.h"

namespace gradmill::test {
namespace {

class ReplaceFile : public testing::Test {
 protected:
  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "state.json";
};

TEST_F(ReplaceFile, IsAllOrNothing) {
  replace_file(path_, "one");
  FaultyFileOps counter(real_file_ops());
  replace_file(path_, "one", counter);
  for (int64_t call = 1; call <= counter.num_calls(); ++call) {
    FaultyFileOps ops(real_file_ops(), {Fault::Kind::fail, call, EIO});
    EXPECT_THROW(replace_file(path_, "two", ops), FileError);
    EXPECT_EQ(read(path_), call == counter.num_calls() ? "two" : "one");  // the last call syncs the folder
    EXPECT_EQ(folder_.num_entries(), 1) << "a temporary stays";
  }
}

TEST_F(ReplaceFile, MakesFolders) {
  replace_file(folder_.path() / "a/b/c.txt", "deep");
  EXPECT_EQ(read(folder_.path() / "a/b/c.txt"), "deep");
}

// A message with the temporary name would be confusing.
TEST_F(ReplaceFile, FailuresNameTheFile) {
  FaultyFileOps full(real_file_ops(), {Fault::Kind::fail_writes, 2, ENOSPC});
  expect_error([&] { replace_file(path_, "one", full); }, ExitCode::failure,
               {path_.string() + ": cannot write", "free some space"});
  folder_.write("file", "");
  expect_error([&] { replace_file(folder_.path() / "file/below", ""); }, ExitCode::failure, {"make the folder"});
}

// A user who may create files in /dev must not lose a device by naming it.
TEST_F(ReplaceFile, WhatIsNoFileStays) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_error([&] { replace_file(path_, "one"); }, ExitCode::usage, {"is not a regular file"});
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
  expect_error([&] { replace_file(folder_.path(), "one"); }, ExitCode::usage, {"is not a regular file"});
}

}  // namespace
}  // namespace gradmill::test
