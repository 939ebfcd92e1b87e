// SPDX-License-Identifier: Apache-2.0
// Lists of files, and all formats and compressions as one stream.
#include "data/records/record_stream.h"

#include <fstream>
#include <set>

#include "data/records/compressed.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

constexpr Compression kCompressions[] = {Compression::none, Compression::gzip, Compression::zstd};

std::vector<std::string> names_of(const std::vector<SourceFile>& files) {
  std::vector<std::string> names;
  for (const SourceFile& file : files) names.push_back(file.path.filename());
  return names;
}

class SourcesTest : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  static std::vector<SourceFile> list(std::vector<std::string> entries) { return list_sources(entries); }
  TemporaryFolder folder_;
};

using Names = std::vector<std::string>;

TEST_F(SourcesTest, FilesFoldersPatternsAndLists) {
  for (const char* name :
       {"b.jsonl", "a.csv.gz", "C.TSV.ZST", ".hidden.csv", "README.md", "sub/d.ndjson", "x[1].csv"}) {
    folder_.write(name, "");
  }
  EXPECT_EQ(names_of(list({at("")})), (Names{"C.TSV.ZST", "a.csv.gz", "b.jsonl", "x[1].csv"}));
  EXPECT_EQ(names_of(list({at("*/*")})), (Names{"d.ndjson"}));
  EXPECT_EQ(names_of(list({at("x[1].csv")})), (Names{"x[1].csv"}));
  EXPECT_EQ(names_of(list({at("b.*"), at("sub"), at("a.csv.gz"), at("./b.jsonl")})),
            (Names{"a.csv.gz", "b.jsonl", "d.ndjson"}));
  const std::vector<SourceFile> files = list({at("C.TSV.ZST"), at("a.csv.gz")});
  EXPECT_EQ(files[0].format, RecordFormat::tsv);
  EXPECT_EQ(files[0].compression, Compression::zstd);
  EXPECT_EQ(files[1].format, RecordFormat::csv);
  EXPECT_EQ(files[1].compression, Compression::gzip);
}

TEST_F(SourcesTest, WhatCannotBeUsedIsSaid) {
  folder_.write("notes.md", "");
  folder_.write("it's.parquet", "");
  folder_.write("all.json", "");
  folder_.write("docs/README.md", "");
  expect_error([] { list({}); }, ExitCode::data, {"no data files"});
  expect_error([&] { list({at("none.jsonl")}); }, ExitCode::data, {at("none.jsonl"), "check the path"});
  expect_error([&] { list({at("*.csv")}); }, ExitCode::data, {"no file matches", at("*.csv")});
  expect_error([&] { list({at("notes.md")}); }, ExitCode::data, {"notes.md", ".jsonl", ".tsv", ".zst"});
  expect_error([&] { list({at("n*")}); }, ExitCode::data, {"notes.md", ".jsonl"});
  expect_error([&] { list({at("docs")}); }, ExitCode::data, {"docs", "no data files", ".jsonl", "docs/*/*.jsonl"});
  expect_error([&] { list({at("it's.parquet")}); }, ExitCode::data,
               {".parquet files are not read", "python3 -c", "it'\\''s.parquet", "it'\\''s.jsonl"});
  expect_error([&] { list({at("all.json")}); }, ExitCode::data, {"jq -c '.[]'", "all.jsonl"});
  expect_error([&] { list({at("")}); }, ExitCode::data, {"all.json"});
}

TEST_F(SourcesTest, EveryFormatAndCompressionInOneStream) {
  for (const Compression compression : kCompressions) {
    const std::string ending = ending_of(compression);
    folder_.write("1.jsonl" + ending, compress("{\"n\":1,\"text\":\"a b\"}\n{\"text\":\"c\"}", compression));
    folder_.write("2.csv" + ending, compress("n,text\r\n1,\"a b\"\r\n2,c\r\n", compression));
    folder_.write("3.tsv" + ending, compress("text\tn\na b\t1\nc\t2", compression));
    folder_.write("4.csv" + ending, compress("", compression));
    folder_.write("4.jsonl" + ending, compress("", compression));
    folder_.write("4.tsv" + ending, compress("", compression));
  }
  RecordStream stream(list({at("")}), {.fields = {{"text"}}});
  std::string texts;
  std::set<std::string> files;
  for (Record record; stream.next(record);) {
    ASSERT_EQ(record.fields().size(), 1u);
    texts += record.find("text")->value + ";";
    files.insert(record.file);
  }
  std::string expected;
  for (int i = 0; i < 9; ++i) expected += "a b;c;";
  EXPECT_EQ(texts, expected);
  EXPECT_EQ(files.size(), 9u);
  EXPECT_EQ(stream.num_records(), 18);
  EXPECT_EQ(stream.bad_records().num_skipped(), 0);
  EXPECT_EQ(stream.bad_records().summary(), "");
}

TEST_F(SourcesTest, SkippedRecordsAreCountedOverAllFiles) {
  folder_.write("1.jsonl", "{\"text\":\"a\"}\nbroken\n{\"text\":\"b\"}\n");
  folder_.write("2.csv", "text\nc\nd,e\n");
  RecordStream stream(list({at("")}), {.bad_records = BadRecordPolicy::skip});
  Record record;
  while (stream.next(record)) continue;
  EXPECT_EQ(stream.num_records(), 3);
  EXPECT_EQ(stream.bad_records().num_skipped(BadRecord::malformed), 2);
  EXPECT_NE(stream.bad_records().summary().find("1.jsonl' line 2"), std::string::npos);
}

TEST_F(SourcesTest, ADamagedFileIsAnErrorUnderAnyPolicy) {
  for (const Compression compression : {Compression::gzip, Compression::zstd}) {
    const std::string bytes = compress("{\"text\":\"a\"}\n", compression);
    const std::string name = "cut.jsonl" + ending_of(compression);
    folder_.write(name, bytes.substr(0, bytes.size() - 3));
    RecordStream stream(list({at(name)}), {.bad_records = BadRecordPolicy::skip});
    Record record;
    expect_error(
        [&] {
          while (stream.next(record)) continue;
        },
        ExitCode::data, {name, "cut short"});
  }
}

TEST_F(SourcesTest, ALimitOutOfRangeIsAnError) {
  for (const int64_t limit : {int64_t{-1}, int64_t{0}, (int64_t{1} << 30) + 1, INT64_MAX}) {
    expect_error([&] { RecordStream({}, {.max_record_bytes = limit}); }, ExitCode::usage, {std::to_string(limit)});
  }
}

int64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  }
  return 0;
}

// A line of 100 MB between two good ones: skipped using little memory, or reported.
TEST_F(SourcesTest, AHugeLineIsBounded) {
  const std::string block(1 << 20, 'x');
  for (const Compression compression : kCompressions) {
    const std::string name = "huge.jsonl" + ending_of(compression), part = compress(block, compression);
    std::ofstream file(at(name), std::ios::binary);
    file << compress("{\"text\":\"a\"}\n{\"text\":\"", compression);
    for (int i = 0; i < 100; ++i) file << part;
    file << compress("\"}\n{\"text\":\"b\"}\n", compression);
    file.close();

    const int64_t before = peak_kib();
    ReadOptions options{.bad_records = BadRecordPolicy::skip, .max_record_bytes = 1 << 20};
    RecordStream stream(list({at(name)}), options);
    Record record;
    ASSERT_TRUE(stream.next(record));
    ASSERT_TRUE(stream.next(record));
    EXPECT_EQ(record.line, 3);
    EXPECT_EQ(record.find("text")->value, "b");
    EXPECT_FALSE(stream.next(record));
    EXPECT_EQ(stream.bad_records().num_skipped(BadRecord::too_long), 1);
    EXPECT_LT(peak_kib() - before, 16 << 10);

    options.bad_records = BadRecordPolicy::error;
    RecordStream strict(list({at(name)}), options);
    ASSERT_TRUE(strict.next(record));
    expect_error([&] { strict.next(record); }, ExitCode::data, {name, "line 2", "longer than 1048576 bytes"});
  }
}

}  // namespace
}  // namespace gradmill::test
