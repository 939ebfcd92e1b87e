// SPDX-License-Identifier: Apache-2.0
#include "data/records/record_blocks.h"

#include <algorithm>

#include "data/records/compressed.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

constexpr Compression kCompressions[] = {Compression::none, Compression::gzip, Compression::zstd};

std::string numbered_lines(int64_t count) {
  std::string text;
  // Lines of many lengths, and empty ones.
  for (int64_t i = 0; i < count; ++i) {
    text += fmt::format("{{\"n\": {}, \"text\": \"{}\"}}\n{}", i, std::string(static_cast<size_t>(i * 37 % 61), 'x'),
                        i % 5 == 0 ? "\n" : "");
  }
  return text;
}

std::vector<std::string> values_of(const RecordBlock& block, const ReadOptions& options = {}) {
  std::vector<std::string> values;
  BadRecords bad = bad_records_of(block, options.bad_records);
  for_each_record(block, options, bad, [&](const Record& record) { values.push_back(record.fields()[0].value); });
  return values;
}

class RecordBlocksTest : public testing::Test {
 protected:
  std::vector<SourceFile> sources() const { return list_sources(std::vector<std::string>{folder_.path().string()}); }
  static std::vector<RecordBlock> read(RecordBlocks blocks, size_t most = 1000000) {
    std::vector<RecordBlock> result;
    while (result.size() < most) {
      std::optional<RecordBlock> block = blocks.next();
      if (!block) break;
      result.push_back(std::move(*block));
    }
    return result;
  }

  TemporaryFolder folder_;
};

TEST_F(RecordBlocksTest, EveryLineIsInOneBlockForAnySize) {
  std::vector<std::string> expected;
  for (int64_t i = 0; i < 120; ++i) expected.push_back(std::to_string(i));
  for (const Compression compression : kCompressions) {
    const TemporaryFolder folder;
    folder.write("a.jsonl" + ending_of(compression), compress(numbered_lines(120), compression));
    const auto files = list_sources(std::vector<std::string>{folder.path().string()});
    for (int64_t size : {1, 7, 30, 100, 1000, 100000}) {
      std::vector<std::string> seen;
      for (const RecordBlock& block : read(RecordBlocks(files, {.block_bytes = size}))) {
        for (std::string& value : values_of(block)) seen.push_back(std::move(value));
      }
      EXPECT_EQ(seen, expected) << size << ending_of(compression);
    }
  }
}

TEST_F(RecordBlocksTest, GoesOnAtAnyBlock) {
  folder_.write("a.jsonl", numbered_lines(50));
  folder_.write("b.jsonl.gz", gzip(numbered_lines(30)));
  std::string table = "n,text\n";
  for (int i = 0; i < 40; ++i) table += fmt::format("{},\"a\nb\"\n", i);
  folder_.write("c.csv", table);
  const RecordBlocksOptions options{.block_bytes = 200, .endless = true, .shuffle = true, .seed = 5};
  const std::vector<RecordBlock> expected = read(RecordBlocks(sources(), options), 150);
  EXPECT_GE(expected.back().place.epoch, 2);
  for (size_t start = 0; start < 100; start += 3) {
    const std::vector<RecordBlock> again = read(RecordBlocks(sources(), options, expected[start].place), 7);
    for (size_t i = 0; i < again.size(); ++i) {
      EXPECT_EQ(again[i].place, expected[start + i].place);
      EXPECT_EQ(values_of(again[i]), values_of(expected[start + i])) << start << " " << i;
    }
  }
  // Every epoch has its own order, and contains each value as often as the files do.
  std::array<std::vector<std::string>, 2> epochs;
  for (const RecordBlock& block : expected) {
    if (block.place.epoch > 1) break;
    for (std::string& value : values_of(block)) epochs[static_cast<size_t>(block.place.epoch)].push_back(value);
  }
  EXPECT_EQ(epochs[0].size(), 120u);
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : epochs) std::ranges::sort(epoch);
  EXPECT_EQ(epochs[0], epochs[1]);
}

TEST_F(RecordBlocksTest, MessagesNameTheLineOfTheFile) {
  std::string text = numbered_lines(99);
  const int64_t line = std::ranges::count(text, '\n') + 1;
  text += "{broken\n" + numbered_lines(3);
  for (const Compression compression : kCompressions) {
    const TemporaryFolder folder;
    folder.write("a.jsonl" + ending_of(compression), compress(text, compression));
    const auto files = list_sources(std::vector<std::string>{folder.path().string()});
    for (int64_t size : {1, 64, 100, 777, 100000}) {
      const std::string where = fmt::format("line {}:", line);
      expect_error(
          [&] {
            for (const RecordBlock& block : read(RecordBlocks(files, {.block_bytes = size}))) values_of(block);
          },
          ExitCode::data, {"a.jsonl", where, "JSON"});
    }
  }
}

TEST_F(RecordBlocksTest, AHugeLineIsABadRecordInBoundedMemory) {
  folder_.write("a.jsonl", "{\"n\": 1}\n{\"n\": \"" + std::string(3000000, 'x') + "\"}\n{\"n\": 3}\n");
  const ReadOptions options{.bad_records = BadRecordPolicy::skip, .max_record_bytes = 1000};
  for (int64_t size : {10, 100000, 10000000}) {
    std::vector<std::string> seen;
    int64_t skipped = 0;
    for (const RecordBlock& block : read(RecordBlocks(sources(), {.read = options, .block_bytes = size}))) {
      EXPECT_LE(block.num_bytes(), 1200);
      BadRecords bad = bad_records_of(block, options.bad_records);
      for_each_record(block, options, bad, [&](const Record& record) { seen.push_back(record.fields()[0].value); });
      skipped += bad.num_skipped(BadRecord::too_long);
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"1", "3"})) << size;
    EXPECT_EQ(skipped, 1) << size;
  }
}

TEST_F(RecordBlocksTest, ATextIsOneDocumentInParts) {
  std::string text;
  while (text.size() < 300000) text += fmt::format("line {} of a text, ü\n", text.size());
  text += std::string(100000, 'a') + "ü";
  for (const Compression compression : kCompressions) {
    const TemporaryFolder folder;
    folder.write("a.txt" + ending_of(compression), compress("\xef\xbb\xbf" + text, compression));
    folder.write("b.txt", "short");
    folder.write("c.txt", "");
    const auto files = list_sources(std::vector<std::string>{folder.path().string()});
    std::string joined;
    int64_t documents = 0;
    for (const RecordBlock& block : read(RecordBlocks(files, {.block_bytes = 100000}))) {
      for (const Record& record : block.records) {
        EXPECT_LE(record.fields()[0].value.size(), size_t{1} << 16);
        joined += record.fields()[0].value;
        documents += record.continues ? 0 : 1;
      }
    }
    EXPECT_EQ(joined, text + "short");
    EXPECT_EQ(documents, 2);
  }
}

TEST_F(RecordBlocksTest, ATextByLines) {
  folder_.write("a.txt", "one\r\n\ntwo\nthree");
  const ReadOptions options{.fields = {{"content"}}, .text_lines = true};
  std::vector<std::string> seen;
  for (const RecordBlock& block : read(RecordBlocks(sources(), {.read = options, .block_bytes = 4}))) {
    for (std::string& value : values_of(block, options)) seen.push_back(value);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"one", "two", "three"}));
}

TEST_F(RecordBlocksTest, TextsInAFolderCountOnlyWhereNothingElseIs) {
  folder_.write("README.txt", "read me");
  EXPECT_EQ(sources().size(), 1u);
  folder_.write("data.jsonl", "{}");
  ASSERT_EQ(sources().size(), 1u);
  EXPECT_EQ(sources()[0].path.filename(), "data.jsonl");
}

TEST_F(RecordBlocksTest, WhatCannotBeReadIsSaid) {
  const std::string whole = zstd(numbered_lines(5000));
  folder_.write("a.jsonl.zst", whole.substr(0, whole.size() / 2));
  expect_error([&] { read(RecordBlocks(sources(), {.block_bytes = 1000})); }, ExitCode::data,
               {"a.jsonl.zst' is cut short"});
  expect_error([&] { RecordBlocks(sources(), {.block_bytes = 0}); }, ExitCode::usage, {"block are 0"});
  folder_.write("b.txt", "fine\nbroken \xff\n");
  const std::vector<std::string> text = {(folder_.path() / "b.txt").string()};
  expect_error([&] { read(RecordBlocks(list_sources(text), {})); }, ExitCode::data, {"b.txt' line 1", "UTF-8"});
}

}  // namespace
}  // namespace gradmill::test
