// SPDX-License-Identifier: Apache-2.0
#include "files/file_io.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

class FileIoTest : public testing::Test {
 protected:
  std::filesystem::path file_of(const std::string& bytes) {
    const std::filesystem::path path = folder_.path() / "file";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  TemporaryFolder folder_;
};

TEST_F(FileIoTest, ReadsTheBeginning) {
  const auto path = file_of("12345");
  EXPECT_EQ(read_bytes(path, 3), "123");
  EXPECT_EQ(read_bytes(path, 5), "12345");
  EXPECT_EQ(read_bytes(path, kWholeFile), "12345");
}

TEST_F(FileIoTest, AWholeFileMayHaveSoManyBytesAndNoMore) {
  const auto path = file_of("12345");
  EXPECT_EQ(read_whole(path, 5, "cut it"), "12345");
  try {
    read_whole(path, 4, "cut it");
    FAIL() << "a part was taken for the whole";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    const std::string what = error.what();
    EXPECT_NE(what.find(path.string()), std::string::npos) << what;
    EXPECT_NE(what.find("more than 4 bytes"), std::string::npos) << what;
    EXPECT_NE(what.find("cut it"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace gradmill::test
