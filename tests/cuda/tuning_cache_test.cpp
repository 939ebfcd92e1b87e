// SPDX-License-Identifier: Apache-2.0
#include "cuda/tuning_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/temporary_folder.h"

namespace gradmill::cuda {
namespace {

class TuningCacheTest : public testing::Test {
 protected:
  static TuningCache::Value value(int seed) {
    TuningCache::Value bytes{};
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(seed * 37 + static_cast<int>(i) * 91);
    return bytes;
  }
  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(file_).rdbuf();
    return out.str();
  }
  void write(const std::string& text) const { std::ofstream(file_) << text; }
  // Creates the folder with the file, which has two entries for "gpu".
  void make_two() const {
    TuningCache cache(file_, "gpu");
    cache.put("first", value(1));
    cache.put("second, with words", value(2));
    ASSERT_TRUE(cache.save());
  }

  test::TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path() / "new", file_ = folder_ / "below" / "tuning";
};

TEST_F(TuningCacheTest, KeepsWhatWasPut) {
  make_two();
  const TuningCache again(file_, "gpu");
  ASSERT_NE(again.find("first"), nullptr);
  ASSERT_NE(again.find("second, with words"), nullptr);
  EXPECT_EQ(*again.find("first"), value(1));
  EXPECT_EQ(*again.find("second, with words"), value(2));
  EXPECT_EQ(again.find("second"), nullptr);
  // No other file remains.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file_.parent_path()), {}), 1);
}

TEST_F(TuningCacheTest, IgnoresAndReplacesAnotherMachines) {
  make_two();
  TuningCache other(file_, "another gpu");
  EXPECT_EQ(other.find("first"), nullptr);
  other.put("third", value(3));
  ASSERT_TRUE(other.save());
  EXPECT_EQ(TuningCache(file_, "gpu").find("first"), nullptr);
  EXPECT_NE(TuningCache(file_, "another gpu").find("third"), nullptr);
}

TEST_F(TuningCacheTest, IgnoresCorruptLines) {
  make_two();
  const std::string whole = text();
  const size_t second = whole.find("second");
  // Tests every single changed character, and every position where the file may end.
  for (size_t i = whole.find("first"); i < second - 1; ++i) {
    std::string damaged = whole;
    damaged[i] = damaged[i] == '7' ? '8' : '7';
    write(damaged);
    const TuningCache cache(file_, "gpu");
    EXPECT_EQ(cache.find("first"), nullptr) << "character " << i;
    EXPECT_NE(cache.find("second, with words"), nullptr) << "character " << i;
  }
  for (size_t length = 0; length < second - 1; ++length) {
    write(whole.substr(0, length));
    EXPECT_EQ(TuningCache(file_, "gpu").find("first"), nullptr) << "length " << length;
  }
  write(whole.substr(0, second) + "\n\t\n\t\t\nfirst\t00\tff\n" + whole.substr(second));
  EXPECT_NE(TuningCache(file_, "gpu").find("second, with words"), nullptr);
}

TEST_F(TuningCacheTest, KeepsWhatOthersAddedMeanwhile) {
  TuningCache one(file_, "gpu"), two(file_, "gpu");
  one.put("both", value(1));
  one.put("one", value(1));
  two.put("both", value(2));
  ASSERT_TRUE(one.save());
  ASSERT_TRUE(two.save());
  const TuningCache again(file_, "gpu");
  ASSERT_NE(again.find("one"), nullptr);
  ASSERT_NE(again.find("both"), nullptr);
  EXPECT_EQ(*again.find("both"), value(2));
}

TEST_F(TuningCacheTest, WritesNothingWithoutNewEntries) {
  TuningCache cache(file_, "gpu");
  EXPECT_TRUE(cache.save());
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(TuningCacheTest, WithoutAFileItOnlyRemembers) {
  TuningCache cache("", "gpu");
  cache.put("first", value(1));
  EXPECT_NE(cache.find("first"), nullptr);
  EXPECT_TRUE(cache.save());
}

TEST_F(TuningCacheTest, SaysWhenItCannotWrite) {
  std::ofstream(folder_) << "a file where the folder should be";
  TuningCache cache(file_, "gpu");
  cache.put("first", value(1));
  EXPECT_FALSE(cache.save());
}

}  // namespace
}  // namespace gradmill::cuda
