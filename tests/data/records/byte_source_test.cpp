// SPDX-License-Identifier: Apache-2.0
// Complete, truncated and damaged files, plain and compressed.
#include "data/records/byte_source.h"

#include <random>

#include "data/records/compressed.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

// Several buffers of lines that do not compress too well.
std::string sample(size_t size) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < size) text += std::to_string(random()) + "\n";
  text.resize(size);
  return text;
}

class ByteSourceTest : public testing::TestWithParam<Compression> {
 protected:
  std::filesystem::path write(std::string_view bytes) { return folder_.write("file" + ending_of(GetParam()), bytes); }
  TemporaryFolder folder_;
};

TEST_P(ByteSourceTest, GivesWhatWasWritten) {
  for (size_t size : {size_t{1}, size_t{1} << 18, (size_t{1} << 18) + 1, size_t{3} << 20}) {
    const std::string text = sample(size);
    EXPECT_TRUE(read_all(write(compress(text, GetParam())), GetParam()) == text) << size;
  }
}

TEST_P(ByteSourceTest, ConcatenatedStreamsAreOneFile) {
  const std::string text = sample(300000);
  std::string bytes;
  for (const std::string_view part : {std::string_view(text), std::string_view(), std::string_view("tail")}) {
    bytes += compress(part, GetParam());
  }
  EXPECT_TRUE(read_all(write(bytes), GetParam()) == text + "tail");
}

TEST_P(ByteSourceTest, AnEmptyTextIsEmpty) { EXPECT_EQ(read_all(write(compress("", GetParam())), GetParam()), ""); }

TEST_P(ByteSourceTest, MissingFilesAndFoldersAreNamed) {
  expect_error([&] { open_bytes("/no/such/file", GetParam()); }, ExitCode::data, {"/no/such/file", "No such file"});
  expect_error([&] { open_bytes(folder_.path(), GetParam()); }, ExitCode::data, {folder_.path().string(), "folder"});
}

INSTANTIATE_TEST_SUITE_P(Compressions, ByteSourceTest,
                         testing::Values(Compression::none, Compression::gzip, Compression::zstd));

class DamagedTest : public ByteSourceTest {};

TEST_P(DamagedTest, EveryCutIsAnError) {
  const std::string bytes = compress(sample(600), GetParam());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto path = write(std::string_view(bytes).substr(0, size));
    expect_error([&] { read_all(path, GetParam()); }, ExitCode::data,
                 {path.string(), "cut short", "at byte " + std::to_string(size), "again"});
  }
}

TEST_P(DamagedTest, ALargeFileCutShortGivesItsStartAndThenTheError) {
  const std::string text = sample(2 << 20), bytes = compress(text, GetParam());
  const auto path = write(std::string_view(bytes).substr(0, bytes.size() / 2));
  const std::unique_ptr<ByteSource> source = open_bytes(path, GetParam());
  EXPECT_TRUE(text.starts_with(source->next()));
  expect_error(
      [&] {
        while (!source->next().empty()) continue;
      },
      ExitCode::data, {"cut short", "at byte"});
}

TEST_P(DamagedTest, FlippedBytesAreErrorsOrChangeNothing) {
  const std::string text = sample(600), bytes = compress(text, GetParam());
  int errors = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    const auto path = write(damaged);
    try {
      EXPECT_EQ(read_all(path, GetParam()), text) << i;
    } catch (const Error& error) {
      ++errors;
      EXPECT_NE(std::string_view(error.what()).find(path.string()), std::string_view::npos);
    }
  }
  EXPECT_GT(errors, static_cast<int>(bytes.size()) - 12);  // some bytes of a gzip header have no meaning for the reader
}

TEST_P(DamagedTest, AnotherKindOfFileIsSaid) {
  const auto path = write("{\"text\": \"not compressed at all\"}\n");
  expect_error([&] { read_all(path, GetParam()); }, ExitCode::data, {path.string(), "not valid", "near byte"});
  const auto tail = write(compress("good", GetParam()) + "no more of it");
  expect_error([&] { read_all(tail, GetParam()); }, ExitCode::data, {tail.string(), "not valid"});
}

INSTANTIATE_TEST_SUITE_P(Compressions, DamagedTest, testing::Values(Compression::gzip, Compression::zstd));

TEST(GzipSource, ZerosBehindTheDataAreIgnored) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_all(folder.write("a.gz", gzip("text") + std::string(1000, '\0')), Compression::gzip), "text");
}

TEST(ZstdSource, AWindowOverTheLimitIsAnError) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.zst", zstd("text", 28));
  expect_error([&] { read_all(path, Compression::zstd); }, ExitCode::data, {path.string(), "128 MiB", "--long"});
}

}  // namespace
}  // namespace gradmill::test
