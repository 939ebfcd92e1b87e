// SPDX-License-Identifier: Apache-2.0
#include "files/fresh_target.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "support/errors.h"
#include "support/temporary_folder.h"
#include "files/faulty_file_ops.h"

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;
using Kind = FreshTarget::Kind;

class FreshTargetTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  fs::path name_ = folder_.path() / "new/target";
};

TEST_F(FreshTargetTest, AppearsWhenItIsPublished) {
  {
    FreshTarget target(real_file_ops(), name_ / "", Kind::folder);
    std::ofstream(target.path() / "file") << "content";
    EXPECT_FALSE(fs::exists(name_));
    target.publish();
  }
  EXPECT_TRUE(fs::exists(name_ / "file"));
  FreshTarget target(real_file_ops(), folder_.path() / "file", Kind::file);
  std::ofstream(target.path()) << "content";
  target.publish();
  EXPECT_EQ(fs::file_size(folder_.path() / "file"), 7u);
  EXPECT_EQ(folder_.num_entries(), 4);
}

TEST_F(FreshTargetTest, WhatIsNotPublishedGoes) {
  {
    const FreshTarget target(real_file_ops(), name_, Kind::folder);
    std::ofstream(target.path() / "file") << "content";
  }
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "a parent stays";
  {
    FaultyFileOps ops(real_file_ops(), {Fault::Kind::fail, 3, EIO});  // after the folder was created and synced
    FreshTarget target(ops, name_, Kind::folder);
    std::ofstream(name_.parent_path() / "another's");
    EXPECT_THROW(target.publish(), FileError);
  }
  EXPECT_EQ(folder_.num_entries(), 2) << "the parent has something else now";
}

TEST_F(FreshTargetTest, NothingIsReplacedButAnEmptyFolder) {
  fs::create_directories(name_);
  expect_error([&] { FreshTarget(real_file_ops(), name_, Kind::file); }, ExitCode::usage, {"exists already"});
  FreshTarget(real_file_ops(), name_, Kind::folder).publish();
  std::ofstream(name_ / "file") << "content";
  expect_error([&] { FreshTarget(real_file_ops(), name_, Kind::folder); }, ExitCode::usage, {"exists already"});
  fs::create_symlink("nowhere", folder_.path() / "link");
  expect_error([&] { FreshTarget(real_file_ops(), folder_.path() / "link", Kind::file); }, ExitCode::usage,
               {"exists already"});
  expect_error([&] { FreshTarget(real_file_ops(), name_ / "file/below", Kind::file); }, ExitCode::failure,
               {"make the folder"});
}

}  // namespace
}  // namespace gradmill::test
