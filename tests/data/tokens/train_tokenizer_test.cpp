// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/train_tokenizer.h"

#include <fstream>

#include "data/tokens/corpus_tokenizer.h"
#include "data/tokens/number_corpus.h"
#include "support/errors.h"
#include "files/file_io.h"

namespace gradmill::test {
namespace {

class TrainTokenizerTest : public testing::Test {
 protected:
  TemporaryFolder data_, out_;
};

TEST_F(TrainTokenizerTest, WritesAFolderThatEncodesAndDecodes) {
  data_.write("a.jsonl", "{\"body\": \"low lower lowest\"}\n{\"body\": \"new newer newest\"}\n");
  const TrainTokenizerReport report =
      train_tokenizer(sources_of(data_), out_.path() / "t",
                      {.bpe = {.vocab_size = 270, .special_tokens = {"<eos>", "<pad>"}}, .column = "body"});
  EXPECT_EQ(report.records, 2);
  EXPECT_EQ(report.text_bytes, 32);
  EXPECT_EQ(report.vocab_size, 270);
  EXPECT_EQ(report.num_merges, 270 - 256 - 2);
  const CorpusTokenizer loaded = open_corpus_tokenizer(out_.path() / "t");
  EXPECT_EQ(loaded.tokenizer->vocab_size(), 270);
  EXPECT_EQ(loaded.eos, 0);
  const std::string text = "slower news, größer \xf0\x9f\x98\x80";
  EXPECT_EQ(loaded.tokenizer->decode(loaded.tokenizer->encode(text).ids), text);
  EXPECT_LT(loaded.tokenizer->encode("lowest newest").ids.size(), 9u);
}

TEST_F(TrainTokenizerTest, TheEndOfADocumentIsTheConfiguredOneOrTheNamedOne) {
  data_.write("a.txt", "some words");
  train_tokenizer(sources_of(data_), out_.path() / "t", {.bpe = {.vocab_size = 260, .special_tokens = {"<a>", "<b>"}}});
  const CorpusTokenizer loaded = open_corpus_tokenizer(out_.path() / "t");
  Record record;
  record.add("text").value = "x";
  const auto last_of = [&](const std::string& eos) {
    TokenDocument document;
    loaded.text("text", eos).encode(record, document);
    return document.ids.back();
  };
  EXPECT_EQ(last_of("auto"), 0);
  EXPECT_EQ(last_of("<b>"), 1);
  EXPECT_EQ(last_of("none"), loaded.tokenizer->encode("x").ids.back());
  expect_error([&] { loaded.text("text", "<c>"); }, ExitCode::usage, {"no token '<c>'"});
  EXPECT_NE(loaded.text("text", "auto").fingerprint, loaded.text("text", "none").fingerprint);
  EXPECT_NE(loaded.text("text", "auto").fingerprint, loaded.text("body", "auto").fingerprint);
  // A part of a text that continues gets no end token, and an empty text none at all.
  record.continues = true;
  EXPECT_NE(last_of("auto"), 0);
  record.clear();
  record.add("text");
  TokenDocument document;
  loaded.text("text", "auto").encode(record, document);
  EXPECT_TRUE(document.ids.empty());
}

TEST_F(TrainTokenizerTest, AFailureLeavesNothing) {
  data_.write("a.jsonl", "{\"text\": \"\"}\n");
  expect_error([&] { train_tokenizer(sources_of(data_), out_.path() / "t", {}); }, ExitCode::data, {"no text"});
  data_.write("a.jsonl", "{\"text\": \"a\"}\n{broken\n");
  expect_error([&] { train_tokenizer(sources_of(data_), out_.path() / "t", {}); }, ExitCode::data, {"line 2"});
  expect_error([&] { train_tokenizer(sources_of(data_), out_.path() / "t", {.bpe = {.vocab_size = 0}}); },
               ExitCode::usage, {"size is 0"});
  EXPECT_EQ(out_.num_entries(), 0);
}

}  // namespace
}  // namespace gradmill::test
