// SPDX-License-Identifier: Apache-2.0
#include "files/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "support/errors.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

constexpr size_t kBytes = size_t{1} << 20;

int64_t sum_of(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                         [](int64_t sum, std::byte value) { return sum + std::to_integer<int64_t>(value); });
}

class MappedFileTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.write("mapped", std::string(kBytes, '\1'));
};

TEST_F(MappedFileTest, AFileThatBecomesShorterIsAnError) {
  MappedFile file(path_);
  EXPECT_EQ(sum_of(file.bytes()), std::ssize(file.bytes()));
  file.check();
  std::filesystem::resize_file(path_, 5000);
  EXPECT_EQ(sum_of(file.bytes().first(4096)), 4096);
  file.check();  // bytes that are left can be read
  EXPECT_LT(sum_of(file.bytes()), std::ssize(file.bytes()));
  const MappedFile moved = std::move(file);
  for (int round = 0; round < 2; ++round) {
    expect_error([&] { moved.check(); }, ExitCode::data,
                 {path_.string() + ": it has 5000 bytes left of the 1048576 it was opened with", "restore the file"});
  }
}

// The files beside it, and the same one opened again, are what they are.
TEST_F(MappedFileTest, OtherMappingsDoNotNotice) {
  const auto other_path = folder_.write("other", std::string(kBytes, '\2'));
  const MappedFile before(other_path);
  {
    const MappedFile file(path_);
    const MappedFile after(other_path);
    std::filesystem::resize_file(path_, 0);
    EXPECT_EQ(sum_of(file.bytes()), 0);
    expect_error([&] { file.check(); }, ExitCode::data, {"it has 0 bytes left"});
    EXPECT_EQ(sum_of(after.bytes()), 2 * std::ssize(after.bytes()));
    after.check();
  }
  EXPECT_EQ(sum_of(before.bytes()), 2 * std::ssize(before.bytes()));
  before.check();
  folder_.write("mapped", std::string(kBytes, '\3'));
  const MappedFile again(path_);
  EXPECT_EQ(sum_of(again.bytes()), 3 * std::ssize(again.bytes()));
  again.check();
}

TEST_F(MappedFileTest, AnyThreadMayBeTheFirstToRead) {
  for (int round = 0; round < 20; ++round) {
    const MappedFile file(folder_.write("shared", std::string(kBytes, '\1')));
    std::vector<std::jthread> threads;
    std::atomic<int64_t> sum = 0;
    std::atomic<int> unnoticed = 0;
    std::filesystem::resize_file(folder_.path() / "shared", 0);
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        sum += sum_of(file.bytes());
        try {
          file.check();
          ++unnoticed;
        } catch (const Error&) {
        }
      });
    }
    threads.clear();
    EXPECT_EQ(sum, 0);
    EXPECT_EQ(unnoticed, 0);
  }
}

// What is no guarded mapping ends the process as before.
TEST_F(MappedFileTest, OtherBusErrorsAreNotHidden) {
  const MappedFile installs_the_handler(path_);
  const auto read_what_is_gone = [&] {
    const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    const void* memory = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    std::filesystem::resize_file(path_, 0);
    ::_exit(*static_cast<const volatile char*>(memory));
  };
  EXPECT_EXIT(
      read_what_is_gone(), [](int status) { return status != 0; }, "");
}

}  // namespace
}  // namespace gradmill::test
