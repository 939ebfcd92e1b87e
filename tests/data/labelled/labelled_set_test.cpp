// SPDX-License-Identifier: Apache-2.0
// Labels and texts from files, and the messages about those that cannot be used.
#include "data/labelled/labelled_set.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>

#include "data/labelled/read_labelled.h"
#include "data/records/compressed.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

class LabelledSetTest : public testing::Test {
 protected:
  LabelledSet read(const std::vector<std::pair<std::string, std::string>>& files, const LabelledOptions& options = {}) {
    std::vector<std::string> paths;
    for (const auto& [name, bytes] : files) paths.push_back(folder_.write(name, bytes));
    return read_labelled(list_sources(paths), options);
  }
  LabelledSet csv(const std::string& text, const LabelledOptions& options = {}) {
    return read({{"a.csv", text}}, options);
  }
  LabelledSet jsonl(const std::string& text, const LabelledOptions& options = {}) {
    return read({{"a.jsonl", text}}, options);
  }
  void expect_refused(const std::string& name, const std::string& bytes, std::initializer_list<std::string_view> parts,
                      const LabelledOptions& options = {}) {
    expect_error([&] { read({{name, bytes}}, options); }, ExitCode::data, parts);
  }
  TemporaryFolder folder_;
};

std::string names_of(const LabelledSet& set) {
  std::string text;
  for (const std::string& name : set.labels.names()) text += name + ";";
  return text;
}

using Classes = std::vector<int32_t>;

TEST_F(LabelledSetTest, SinglesAndPairsInEveryFormat) {
  for (const Compression compression : {Compression::none, Compression::gzip, Compression::zstd}) {
    const std::string ending = ending_of(compression);
    const LabelledSet set =
        read({{"1.csv" + ending, compress("premise,hypothesis,label\n\"a, b\",c,yes\n", compression)},
              {"2.tsv" + ending, compress("label\tpremise\thypothesis\nno\td \"e\t\n", compression)},
              {"3.jsonl" + ending, compress(R"({"hypothesis":"f","label":"yes","premise":5,"x":[1]})", compression)}});
    ASSERT_EQ(set.size(), 3);
    EXPECT_TRUE(set.pairs);
    EXPECT_FALSE(set.regression);
    EXPECT_EQ(set.examples[0].first, "a, b");
    EXPECT_EQ(set.examples[1].first, "d \"e");
    EXPECT_EQ(set.examples[1].second, "");
    EXPECT_EQ(set.examples[2].first, "5");
    EXPECT_EQ(names_of(set), "no;yes;");
    EXPECT_EQ(set.classes(), (Classes{1, 0, 1}));
    EXPECT_EQ(set.where(set.examples[1]), fmt::format("'{}' line 2", (folder_.path() / "2.tsv").string() + ending));
  }
  const LabelledSet single = csv("text,label\na,1\nb,0\n");
  EXPECT_FALSE(single.pairs);
  EXPECT_EQ(single.examples[1].first, "b");
}

TEST_F(LabelledSetTest, LabelsAreSortedWholeNumbersByValue) {
  EXPECT_EQ(names_of(csv("text,label\na,10\nb,9\nc,-3\nd,009\n")), "-3;9;10;");
  EXPECT_EQ(csv("text,label\na,10\nb,9\nc,-3\nd,009\n").classes(), (Classes{2, 1, 0, 1}));
  EXPECT_EQ(names_of(csv("text,label\na,10\nb,9\n", {.label_kind = LabelKind::words})), "10;9;");
  EXPECT_EQ(names_of(jsonl("{\"text\":\"a\",\"label\":true}\n{\"text\":\"a\",\"label\":false}\n")), "false;true;");
  EXPECT_EQ(names_of(csv("text,label\na,nan\nb,inf\n")), "inf;nan;");
}

TEST_F(LabelledSetTest, NumbersWithAFractionAreARegression) {
  const LabelledSet set = csv("sentence1,sentence2,score\na,b,1\nc,d,2.5\ne,f,-1\n");
  EXPECT_TRUE(set.regression);
  EXPECT_EQ(set.labels.size(), 0);
  EXPECT_EQ(set.examples[1].target, 2.5f);
  EXPECT_EQ(set.examples[2].target, -1.0f);
  EXPECT_TRUE(csv("text,label\na,1\n", {.label_kind = LabelKind::real}).regression);
  expect_refused("a.csv", "text,label\na,0.5\nb,1e99\n", {"a.csv' line 3: label '1e99' is not a finite number"});
  expect_refused("a.csv", "text,label\na,0.5\nb,x\n", {"line 3", "'x'"}, {.label_kind = LabelKind::real});
}

TEST_F(LabelledSetTest, GivenLabelsAreHonoured) {
  const LabelMap map({"not_entailment", "entailment"});
  EXPECT_EQ(csv("text,label\na,entailment\nb,not_entailment\n", {.labels = map}).classes(), (Classes{1, 0}));
  EXPECT_EQ(csv("text,label\na,1\nb,0\n", {.labels = map}).classes(), (Classes{1, 0}));
  // Numbers that are names count as names, not as ids.
  EXPECT_EQ(csv("text,label\na,1\nb,5\n", {.labels = LabelMap({"5", "1"})}).classes(), (Classes{1, 0}));
  expect_refused("a.csv", "text,label\na,entailment\nb,neutral\n",
                 {"a.csv' line 3: unknown label 'neutral'", "'not_entailment', 'entailment'"}, {.labels = map});
  expect_refused("a.csv", "text,label\na,2\n", {"line 2: unknown label '2'"}, {.labels = map});
  expect_refused("a.csv", "text,label\na,0\n", {"line 2: unknown label '0'"}, {.labels = LabelMap({"5", "1"})});
  expect_error([&] { csv("text,label\na,0\n", {.label_kind = LabelKind::real, .labels = map}); }, ExitCode::usage,
               {"regression"});
}

TEST_F(LabelledSetTest, UnlabelledExamplesAreForPredictionOnly) {
  const std::string text = "text,label\na,1\nb,-1\nc,\n";
  const LabelledSet set = csv(text, {.require_labels = false});
  EXPECT_EQ(set.classes(), (Classes{0, kUnlabelled, kUnlabelled}));
  EXPECT_EQ(names_of(set), "1;");
  EXPECT_FALSE(set.is_labelled(set.examples[1]));
  EXPECT_EQ(csv("text\na\n", {.require_labels = false}).labels.size(), 0);
  EXPECT_EQ(csv("text,label\na,yes\nb,-1\n", {.require_labels = false}).classes(), (Classes{0, kUnlabelled}));
  const LabelledSet real = csv("text,label\na,0.5\nb,\n", {.require_labels = false});
  EXPECT_TRUE(std::isnan(real.examples[1].target));
  EXPECT_FALSE(real.is_labelled(real.examples[1]));

  expect_refused("a.csv", text, {"line 3: label -1", "none"});
  expect_refused("a.csv", "text,label\na,1\nc,\n", {"line 3: no label"});
  expect_refused("a.jsonl", "{\"text\":\"a\",\"label\":1}\n{\"text\":\"b\",\"label\":null}\n", {"line 2: no label"});
  const LabelledSet skipped = csv(text, {.bad_records = BadRecordPolicy::skip});
  EXPECT_EQ(skipped.size(), 1);
  EXPECT_EQ(skipped.num_skipped, 2);
  EXPECT_NE(skipped.skipped.find("2 without a required field"), std::string::npos);
}

TEST_F(LabelledSetTest, MixedLabelsAreNamed) {
  expect_refused("a.csv", "text,label\na,1\nb,2\nc,good\n", {"a.csv' line 4: label 'good' is a word", "'1' on line 2"});
  expect_refused("a.jsonl", "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"b\",\"label\":0.5}\n",
                 {"line 1: label 'x' is a word", "'0.5' on line 2"}, {.bad_records = BadRecordPolicy::skip});
  EXPECT_EQ(names_of(csv("text,label\na,1\nb,good\n", {.label_kind = LabelKind::words})), "1;good;");
  expect_refused("a.csv", "text,label\na,1\nb,good\n", {"line 3", "'good' is not a whole number"},
                 {.label_kind = LabelKind::integers});
}

TEST_F(LabelledSetTest, GroupsAreNumbered) {
  const LabelledSet set = csv("author,text,label\nx,a,1\ny,b,0\nx,c,1\n", {.columns = {.group = "author"}});
  EXPECT_EQ(set.groups(), (Classes{0, 1, 0}));
  EXPECT_EQ(set.num_groups, 2);
  EXPECT_FALSE(set.pairs);
}

TEST_F(LabelledSetTest, MissingColumnsAreNamed) {
  expect_refused("a.csv", "text,stars\na,1\n", {"a.csv' line 2: no label column", "'text', 'stars'"});
  expect_refused("a.csv", "text,label\na,1\n", {"no column 'body'"}, {.columns = {.first = "body"}});
  folder_.write("more/1.csv", "text,label\na,1\n");
  folder_.write("more/2.csv", "body,label\na,1\n");
  // This must not be skipped, because it would skip the whole file.
  expect_error(
      [&] {
        read_labelled(list_sources(std::vector{(folder_.path() / "more").string()}),
                      {.bad_records = BadRecordPolicy::skip});
      },
      ExitCode::data, {"2.csv' line 1: no column 'text'", "'body', 'label'"});
  expect_refused("a.jsonl", "{\"text\":\"a\",\"label\":1}\n{\"label\":1}\n", {"a.jsonl' line 2: no field 'text'"});
}

TEST_F(LabelledSetTest, ALaterLineMayBringTheLabelColumn) {
  EXPECT_EQ(
      jsonl("{\"text\":\"a\",\"label\":null}\n{\"text\":\"b\",\"label\":1}\n", {.require_labels = false}).classes(),
      (Classes{kUnlabelled, 0}));
}

TEST_F(LabelledSetTest, BadInputIsOneLineWithItsPlace) {
  const std::string good = "{\"text\":\"a\",\"label\":1}\n";
  expect_refused("a.jsonl", good + good + "{\"text\":\n", {"a.jsonl' line 3: broken JSON"});
  expect_refused("a.jsonl", good + "{\"text\":\"\xff\",\"label\":1}\n", {"line 2", "UTF-8"});
  expect_refused("a.jsonl", good + "{\"text\":[1],\"label\":1}\n", {"line 2: 'text' is a list or an object"});
  expect_refused("a.jsonl", good + "{\"text\":\"a\",\"label\":[0,1]}\n", {"line 2: 'label' is a list or an object"});
  expect_refused("a.csv", "text,label\na,1,2\n", {"line 2: 3 columns"});
  expect_refused("a.csv", "", {"a.csv': no examples", "records"});
  expect_refused("a.csv", "text,label\n", {"a.csv': no examples"});
  expect_refused("a.jsonl", "", {"a.jsonl': no examples"});
  expect_refused("a.jsonl", "x\n", {"a.jsonl': no examples", "skipped 1 (1 malformed)"},
                 {.bad_records = BadRecordPolicy::skip});
  expect_refused("a.csv", "text,label\na,-1\n", {"every record was bad", "skipped 1"},
                 {.bad_records = BadRecordPolicy::skip});
  for (const Compression compression : {Compression::gzip, Compression::zstd}) {
    std::string text = "text,label\n";
    for (int i = 0; i < 1000; ++i) text += "some words,1\n";
    const std::string bytes = compress(text, compression), name = "a.csv" + ending_of(compression);
    expect_refused(name, bytes.substr(0, bytes.size() / 2), {name, "cut short", "byte"},
                   {.bad_records = BadRecordPolicy::skip});
  }
  expect_error([&] { read_labelled({}, {}); }, ExitCode::data, {"no data files"});
  const SourceFile missing{folder_.path() / "none.csv", RecordFormat::csv, Compression::none};
  expect_error([&] { read_labelled(std::span(&missing, 1), {}); }, ExitCode::data, {"none.csv"});
}

TEST_F(LabelledSetTest, SkippedRecordsAreCounted) {
  const LabelledSet set = jsonl(
      "{\"text\":\"a\",\"label\":1}\nbroken\n{\"text\":[],\"label\":1}\n{\"label\":1}\n{\"text\":\"b\",\"label\":0}\n",
      {.bad_records = BadRecordPolicy::skip});
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.num_skipped, 3);
  EXPECT_NE(set.skipped.find("line 2"), std::string::npos);
  EXPECT_NE(set.skipped.find("line 3"), std::string::npos);
}

TEST_F(LabelledSetTest, MemoryIsBounded) {
  std::string text = "text,label\n";
  for (int i = 0; i < 1000; ++i) text += "a,1\n";
  expect_refused("a.csv", text, {"a.csv' line ", "more than 50000 bytes", "memory"}, {.max_memory = 50000});
  EXPECT_EQ(csv(text).size(), 1000);

  // One line of a hundred megabytes, in a file of a few kilobytes.
  const std::string name = "huge.tsv.zst";
  const std::string bytes = zstd("text\tlabel\na\t1\n") + zstd(std::string(100 << 20, 'x')) + zstd("\t1\nb\t0\n");
  LabelledOptions options{.max_record_bytes = 1 << 20};
  expect_refused(name, bytes, {"huge.tsv.zst' line 3: longer than 1048576 bytes"}, options);
  options.bad_records = BadRecordPolicy::skip;
  EXPECT_EQ(read({{name, bytes}}, options).size(), 2);
}

TEST_F(LabelledSetTest, TooManyClassesAreATextColumn) {
  std::string text = "text,label\n";
  for (int64_t i = 0; i <= kMaxClasses; ++i) text += "a," + std::to_string(i) + "\n";
  expect_refused("a.csv", text, {"a.csv': more than 65536 different labels"});
}

TEST(RteSet, LoadsAsPairsWithItsLabels) {
  const char* folder = ::getenv("GRADMILL_DATA");
  const auto path = std::filesystem::path(folder == nullptr ? "" : folder) / "rte";
  if (folder == nullptr || !std::filesystem::exists(path / "train.tsv")) {
    GTEST_SKIP() << "set GRADMILL_DATA to the folder that holds rte/train.tsv and rte/dev.tsv";
  }
  const LabelledSet train = read_labelled(list_sources(std::vector{(path / "train.tsv").string()}), {});
  EXPECT_EQ(train.size(), 2490);
  EXPECT_TRUE(train.pairs);
  EXPECT_EQ(train.columns, (Columns{"sentence1", "sentence2", "label", ""}));
  EXPECT_EQ(train.labels, LabelMap({"entailment", "not_entailment"}));
  EXPECT_EQ(train.examples[0].first, "No Weapons of Mass Destruction Found in Iraq Yet.");
  EXPECT_EQ(train.examples[0].second, "Weapons of Mass Destruction Found in Iraq.");
  EXPECT_EQ(train.examples[0].label, 1);
  const LabelledSet dev =
      read_labelled(list_sources(std::vector{(path / "dev.tsv").string()}), {.labels = train.labels});
  EXPECT_EQ(dev.size(), 277);
  EXPECT_EQ(std::ranges::count(dev.classes(), 0), 146);
}

}  // namespace
}  // namespace gradmill::test
