// SPDX-License-Identifier: Apache-2.0
// The records that lines of JSON become, and the lines that are refused.
#include "data/records/jsonl_reader.h"

#include "data/records/compressed.h"
#include "support/errors.h"
#include "data/records/record_stream.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

class JsonlTest : public testing::Test {
 protected:
  RecordStream open(std::string_view text, const ReadOptions& options = {}) {
    return RecordStream({{folder_.write("a.jsonl", text), RecordFormat::jsonl, Compression::none}}, options);
  }
  void expect_refused(std::string_view line, std::string_view what) {
    RecordStream stream = open("{}\n\n" + std::string(line) + "\n{\"ok\":1}\n");
    Record record;
    EXPECT_TRUE(stream.next(record));
    expect_error([&] { stream.next(record); }, ExitCode::data, {"a.jsonl' line 3: ", what, "skipped"});

    RecordStream skipping =
        open("{}\n\n" + std::string(line) + "\n{\"ok\":1}\n", {.bad_records = BadRecordPolicy::skip});
    EXPECT_TRUE(skipping.next(record));
    EXPECT_TRUE(skipping.next(record)) << line;
    EXPECT_EQ(record.line, 4);
    ASSERT_EQ(record.fields().size(), 1u);
    EXPECT_EQ(record.fields()[0].name, "ok");
    EXPECT_FALSE(skipping.next(record));
    EXPECT_EQ(skipping.bad_records().num_skipped(), 1) << line;
  }
  TemporaryFolder folder_;
};

TEST_F(JsonlTest, FieldsBecomeTextOrJson) {
  RecordStream stream =
      open(R"({"text":"a\n\"b\" \u00e9\ud83d\ude00", "n" : -1.5e3 , "big": 123456789012345678901234567890, "yes":true,)"
           R"( "none":null, "messages": [ {"role":"user", "content":"}]\"" } ] , "o":{}})"
           "\r\n  \n{\"k\\u0065y\":\"\"}");
  Record record;
  ASSERT_TRUE(stream.next(record));
  EXPECT_EQ(record.line, 1);
  EXPECT_EQ(record.file, (folder_.path() / "a.jsonl").string());
  EXPECT_EQ(record.fields().size(), 6u);
  EXPECT_EQ(record.find("text")->value, "a\n\"b\" \u00e9\U0001F600");
  EXPECT_FALSE(record.find("text")->is_json);
  EXPECT_EQ(record.find("none"), nullptr);
  const std::pair<const char*, const char*> json[] = {{"n", "-1.5e3"},
                                                      {"big", "123456789012345678901234567890"},
                                                      {"yes", "true"},
                                                      {"messages", R"([ {"role":"user", "content":"}]\"" } ])"},
                                                      {"o", "{}"}};
  for (const auto& [name, value] : json) {
    ASSERT_NE(record.find(name), nullptr) << name;
    EXPECT_EQ(record.find(name)->value, value);
    EXPECT_TRUE(record.find(name)->is_json);
  }
  ASSERT_TRUE(stream.next(record));
  EXPECT_EQ(record.line, 3);
  ASSERT_EQ(record.fields().size(), 1u);
  EXPECT_EQ(record.fields()[0].name, "key");
  EXPECT_EQ(record.fields()[0].value, "");
  EXPECT_FALSE(record.fields()[0].is_json);
  EXPECT_FALSE(stream.next(record));
  EXPECT_EQ(stream.num_records(), 2);
}

TEST_F(JsonlTest, TheLastOfTwoFieldsCounts) {
  RecordStream stream = open(R"({"a":"1","b":"2","a":[3],"c":"4","b":null})");
  Record record;
  ASSERT_TRUE(stream.next(record));
  EXPECT_EQ(record.fields().size(), 2u);
  EXPECT_EQ(record.find("a")->value, "[3]");
  EXPECT_EQ(record.find("c")->value, "4");
}

TEST_F(JsonlTest, OnlyAskedFieldsAreKeptAndRequiredOnesMustBeThere) {
  const std::string text = "{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"}\n{\"b\":\"2\"}\n{\"a\":null}\n{\"a\":\"4\"}\n";
  ReadOptions options{.fields = {{"a"}, {"c", false}}, .bad_records = BadRecordPolicy::skip};
  RecordStream stream = open(text, options);
  Record record;
  ASSERT_TRUE(stream.next(record));
  EXPECT_EQ(record.fields().size(), 2u);
  EXPECT_EQ(record.find("b"), nullptr);
  ASSERT_TRUE(stream.next(record));
  EXPECT_EQ(record.find("a")->value, "4");
  EXPECT_EQ(record.find("c"), nullptr);
  EXPECT_FALSE(stream.next(record));
  EXPECT_EQ(stream.bad_records().num_skipped(BadRecord::missing_field), 2);
  EXPECT_NE(stream.bad_records().summary().find("line 2: no field 'a'"), std::string::npos);

  options.bad_records = BadRecordPolicy::error;
  RecordStream strict = open(text, options);
  EXPECT_TRUE(strict.next(record));
  expect_error([&] { strict.next(record); }, ExitCode::data, {"line 2", "no field 'a'"});
}

TEST_F(JsonlTest, BrokenLinesAreNamedOrSkipped) {
  for (const char* line : {"{",
                           "{\"a\"",
                           "{\"a\":",
                           "{\"a\":1",
                           "{\"a\":1,}",
                           "{\"a\" 1}",
                           "{a:1}",
                           "{\"a\":1 \"b\":2}",
                           "{\"a\":[1,2}",
                           "{\"a\":[1}]",
                           "{\"a\":[1 2]}",
                           "{\"a\":tru}",
                           "{\"a\":nul}",
                           "{\"a\":nulls}",
                           "{\"a\":01}",
                           "{\"a\":1.}",
                           "{\"a\":NaN}",
                           "{\"a\":{\"b\":[nope]}}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":[\"\\q\"]}",
                           "{\"a\":\"b}",
                           "{\"a\":1}}",
                           "{\"a\":{\"b\"}}",
                           "{,}",
                           "{\"a\":,}",
                           "{\"a\":\"tab\there\"}",
                           "{\"a\":[1,]}",
                           "{\"a\":\"\\ud83d\"}",
                           "{\"a\":\"\\ude00\"}",
                           "{\"a\":\"\\ud83d\\ud83d\"}"}) {
    expect_refused(line, "broken JSON");
  }
  for (const char* line : {"{} {}", "{\"a\":1} x", "{\"a\":1}{\"b\":1}"}) expect_refused(line, "follows");
  for (const char* line : {"[1]", "}", "1", "\"text\"", "null", "true"}) expect_refused(line, "JSON object");
}

TEST_F(JsonlTest, WrongUtf8IsNamedOrSkipped) {
  for (const char* bytes : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "caf\xe9"}) {
    expect_refused("{\"a\":\"" + std::string(bytes) + "\"}", "UTF-8");
  }
  RecordStream stream = open("{\"a\":\"\xff\"}\n", {.bad_records = BadRecordPolicy::skip});
  Record record;
  EXPECT_FALSE(stream.next(record));
  EXPECT_EQ(stream.bad_records().num_skipped(BadRecord::not_utf8), 1);
}

TEST_F(JsonlTest, DepthAndFieldsAreBounded) {
  const auto nested = [](int depth) { return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"; };
  Record record;
  EXPECT_TRUE(open(nested(60)).next(record));
  expect_refused(nested(100), "64");
  expect_refused(nested(1000000), "64");
  std::string many = "{\"a\":1";
  for (int i = 0; i < 100000; ++i) many += ",\"f" + std::to_string(i) + "\":1";
  expect_refused(many + "}", "1024 fields");
}

// Every truncation and every changed byte of a line gives a record or an error, never a crash.
TEST_F(JsonlTest, DamageIsHarmless) {
  const std::string line = R"({"text":"a\u00e9","n":[1,{"b":false}],"m":null,"x":-2.5})";
  std::string text;
  int64_t num_lines = 0;
  for (size_t i = 0; i < line.size(); ++i, ++num_lines) text += line.substr(0, i) + "x\n";
  for (size_t i = 0; i < line.size(); ++i) {
    for (const char replacement : {'"', '\\', '{', ']', ',', '0', ' ', '\xff', '\0'}) {
      std::string changed = line;
      changed[i] = replacement;
      text += changed + "\n";
      ++num_lines;
    }
  }
  RecordStream stream = open(text, {.bad_records = BadRecordPolicy::skip});
  Record record;
  while (stream.next(record)) continue;
  EXPECT_EQ(stream.num_records() + stream.bad_records().num_skipped(), num_lines);
  EXPECT_GT(stream.bad_records().num_skipped(), num_lines / 3);
}

}  // namespace
}  // namespace gradmill::test
