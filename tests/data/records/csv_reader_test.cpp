// SPDX-License-Identifier: Apache-2.0
// Tables: quotes, line ends, wrong columns.
#include "data/records/csv_reader.h"

#include <stdlib.h>

#include <map>
#include <set>

#include "support/errors.h"
#include "data/records/record_stream.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

class CsvTest : public testing::Test {
 protected:
  RecordStream open(std::string_view text, const ReadOptions& options = {}, RecordFormat format = RecordFormat::csv) {
    return RecordStream({{folder_.write("a.csv", text), format, Compression::none}}, options);
  }
  // "line:name=value,name=value;..."
  static std::string all(RecordStream stream) {
    std::string text;
    for (Record record; stream.next(record);) {
      text += std::to_string(record.line) + ":";
      for (const RecordField& field : record.fields()) text += field.name + "=" + field.value + ",";
      text += ";";
    }
    return text;
  }
  void expect_refused(std::string_view text, std::initializer_list<std::string_view> parts,
                      const ReadOptions& options = {}) {
    expect_error([&] { all(open(text, options)); }, ExitCode::data, parts);
  }
  TemporaryFolder folder_;
};

TEST_F(CsvTest, PlainAndQuotedFields) {
  EXPECT_EQ(all(open("a,b\n1,2\n3,4")), "2:a=1,b=2,;3:a=3,b=4,;");
  EXPECT_EQ(all(open("a,b\r\n1,2\r\n\r\n,\r\n")), "2:a=1,b=2,;4:a=,b=,;");
  EXPECT_EQ(all(open("\xef\xbb\xbf"
                     "a,\"b \"\"c\"\"\"\n\"1,2\",\"x\"\"y\"\n\"\",\"\"\"\"\n")),
            "2:a=1,2,b \"c\"=x\"y,;3:a=,b \"c\"=\",;");
  EXPECT_EQ(all(open("a,b\n\"one\ntwo\r\n\nthree\",x\n4,5\n")), "2:a=one\ntwo\r\n\nthree,b=x,;6:a=4,b=5,;");
  EXPECT_EQ(all(open("a\n5\" disk\n")), "2:a=5\" disk,;");
  EXPECT_EQ(all(open(",a\n0,x\n")), "2:a=x,;");
  EXPECT_EQ(all(open("")), "");
  EXPECT_EQ(all(open("a,b\n")), "");
}

TEST_F(CsvTest, TsvHasQuotesOnlyWhenAsked) {
  const std::string text = "a\tb\n\"x, \"y\t\"z\"\n";
  EXPECT_EQ(all(open(text, {}, RecordFormat::tsv)), "2:a=\"x, \"y,b=\"z\",;");
  EXPECT_EQ(all(open("a\tb\n\"x\ty\"\tz\n", {.tsv_quotes = true}, RecordFormat::tsv)), "2:a=x\ty,b=z,;");
}

TEST_F(CsvTest, OnlyAskedColumnsAreKept) {
  EXPECT_EQ(all(open("a,b,c\n1,2,3\n", {.fields = {{"c"}, {"a"}, {"x", false}}})), "2:a=1,c=3,;");
  expect_error([&] { all(open("a,b\n1,2\n", {.fields = {{"text"}}})); }, ExitCode::data,
               {"line 1", "no column 'text'", "'a', 'b'"});
}

TEST_F(CsvTest, WrongColumnsAreNamedOrSkipped) {
  expect_refused("a,b\n1,2\n3\n", {"a.csv' line 3: ", "1 columns", "header has 2"});
  expect_refused("a,b\n1,2\n\n3,4,5\n", {"line 4: ", "3 columns", "header has 2"});
  expect_refused("a,b\n\"x\ny\",2\n3\n", {"line 4: ", "1 columns"});
  expect_refused("a,b\n\"x\"y,2\n", {"line 2: ", "closing quote"});
  RecordStream stream =
      open("a,b\n1,2\n3\n4,5,6\n\"x\"y,\"z\nz\"\n\xff,1\n7,8\n", {.bad_records = BadRecordPolicy::skip});
  Record record;
  EXPECT_TRUE(stream.next(record));
  EXPECT_TRUE(stream.next(record));
  EXPECT_EQ(record.line, 8);
  EXPECT_EQ(record.find("b")->value, "8");
  EXPECT_FALSE(stream.next(record));
  EXPECT_EQ(stream.bad_records().num_skipped(BadRecord::malformed), 3);
  EXPECT_EQ(stream.bad_records().num_skipped(BadRecord::not_utf8), 1);
  EXPECT_NE(stream.bad_records().summary().find("skipped 4 (1 not UTF-8, 3 malformed); the first: "),
            std::string::npos);
}

TEST_F(CsvTest, WrongUtf8IsNamed) {
  expect_refused("a,b\n1,\xe9\n", {"line 2", "UTF-8"});
  expect_refused("a,b\n1,\"x\n\xe9\"\n", {"line 2", "UTF-8", "line 3"});
  expect_refused("a,\xff\n", {"line 1", "UTF-8", "columns"}, {.bad_records = BadRecordPolicy::skip});
}

TEST_F(CsvTest, AQuoteThatIsNeverClosedIsAlwaysAnError) {
  const ReadOptions skip{.bad_records = BadRecordPolicy::skip, .max_record_bytes = 1000};
  expect_refused("a,b\n1,2\n3,\"x\n4,5\n", {"line 3", "never closed"}, skip);
  std::string text = "a,b\n3,\"x\n";
  for (int i = 0; i < 1000; ++i) text += "4,5\n";
  expect_refused(text, {"line 2", "1000 bytes", "quote"}, skip);
  expect_refused("a,b\n1,2\n" + std::string(2000, 'x') + "\n", {"line 3", "1000 bytes"}, skip);
}

TEST_F(CsvTest, ALongTsvLineMayBeSkipped) {
  const std::string text = "a\n1\n" + std::string(2000, 'x') + "\n2\n";
  EXPECT_EQ(all(open(text, {.bad_records = BadRecordPolicy::skip, .max_record_bytes = 1000}, RecordFormat::tsv)),
            "2:a=1,;4:a=2,;");
}

TEST_F(CsvTest, BadHeadersAreRefused) {
  expect_refused("a,b,a\n1,2,3\n", {"line 1", "two columns", "'a'"});
  const std::string name = "\"x\n" + std::string(37, 'y') + "\u00e9z\"";
  expect_refused(name + "," + name + "\n", {"two columns", "'x " + std::string(37, 'y') + "...'"});
  expect_refused(std::string(5000, ',') + "\n", {"line 1", "5001 columns"});
}

TEST(Rte, IsReadAsItIs) {
  const char* folder = ::getenv("GRADMILL_DATA");
  const auto path = std::filesystem::path(folder == nullptr ? "" : folder) / "rte";
  if (folder == nullptr || !std::filesystem::exists(path / "train.tsv")) {
    GTEST_SKIP() << "set GRADMILL_DATA to the folder that holds rte/train.tsv and rte/dev.tsv";
  }
  RecordStream stream(list_sources(std::vector<std::string>{path.string()}), {});
  std::set<std::string> labels;
  std::map<std::string, int64_t> records;
  for (Record record; stream.next(record);) {
    ASSERT_EQ(record.fields().size(), 4u);
    EXPECT_EQ(record.find("index")->value, std::to_string(record.line - 2));
    EXPECT_FALSE(record.find("sentence1")->value.empty() || record.find("sentence2")->value.empty());
    labels.insert(record.find("label")->value);
    ++records[std::filesystem::path(record.file).filename()];
  }
  EXPECT_EQ(labels, (std::set<std::string>{"entailment", "not_entailment"}));
  EXPECT_EQ(records["train.tsv"], 2490);
  EXPECT_EQ(records["dev.tsv"], 277);
}

}  // namespace
}  // namespace gradmill::test
