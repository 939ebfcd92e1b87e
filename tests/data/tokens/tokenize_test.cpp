// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/tokenize.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <numeric>
#include <sstream>

#include "data/tokens/number_corpus.h"
#include "data/tokens/token_cache.h"
#include "support/errors.h"
#include "data/tokens/shard_set.h"
#include "files/faulty_file_ops.h"

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<int32_t> tokens_of(const ShardSet& shards) {
  std::vector<int32_t> tokens(static_cast<size_t>(shards.num_tokens()));
  shards.read(0, tokens);
  return tokens;
}

class TokenizeTest : public testing::Test {
 protected:
  TemporaryFolder data_, out_;
};

TEST_F(TokenizeTest, TheSameShardsForAnyNumberOfThreads) {
  const TokenId last = write_numbers(data_, 300);
  std::vector<int32_t> expected(static_cast<size_t>(last));
  std::iota(expected.begin(), expected.end(), 1);
  for (int threads : {0, 1, 4}) {
    const fs::path out = out_.path() / std::to_string(threads) / "tokens";
    const TokenizeReport report = tokenize_corpus(sources_of(data_), number_encoding(), out,
                                                  {.num_threads = threads, .shard_tokens = 3000, .block_bytes = 5000});
    EXPECT_GE(report.manifest.shards.size(), 4u);
    EXPECT_EQ(report.manifest.num_tokens(), last);
    EXPECT_EQ(report.progress.records, 1050);
    EXPECT_EQ(report.skipped, "");
    const std::vector<fs::path> shards = list_token_shards(out);
    const ShardSet set(shards);
    EXPECT_EQ(tokens_of(set), expected);
    EXPECT_EQ(set.vocab(), kNumbers);
    EXPECT_EQ(set.num_documents(), report.manifest.num_documents());
    EXPECT_FALSE(set.has_learned_plane());
    for (const fs::path& shard : shards)
      EXPECT_EQ(bytes_of(shard), bytes_of(out_.path() / "0/tokens" / shard.filename()));
  }
  EXPECT_TRUE(is_token_data(out_.path() / "0/tokens"));
  EXPECT_TRUE(is_token_data(out_.path() / "0/tokens/shard-00000.tokens"));
  EXPECT_FALSE(is_token_data(data_.path()));
}

TEST_F(TokenizeTest, DocumentsThatSpanBlocksStayWhole) {
  std::string text;
  for (int i = 1; i <= 60000; ++i) text += fmt::format("{}{}", i, i % 10 == 0 ? "\n" : " ");
  data_.write("a.txt", text);
  data_.write("b.txt", "60001 60002");
  tokenize_corpus(sources_of(data_), number_encoding(), out_.path() / "t", {.num_threads = 2, .block_bytes = 1000});
  const ShardSet set(list_token_shards(out_.path() / "t"));
  ASSERT_EQ(set.num_documents(), 2);
  EXPECT_EQ(set.document_end(0), 60000);
  std::vector<int32_t> expected(60002);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(tokens_of(set), expected);
}

TEST_F(TokenizeTest, MasksAreKept) {
  write_numbers(data_, 100);
  tokenize_corpus(sources_of(data_), number_encoding(true), out_.path() / "t", {.num_threads = 1});
  const ShardSet set(list_token_shards(out_.path() / "t"));
  EXPECT_TRUE(set.has_learned_plane());
  std::vector<int32_t> hidden = tokens_of(set);
  set.hide_unlearned(0, hidden, -1);
  for (size_t i = 0; i < hidden.size(); ++i) ASSERT_EQ(hidden[i], (i + 1) % 2 == 0 ? static_cast<int>(i) + 1 : -1);
}

TEST_F(TokenizeTest, TheFolderIsThereAsAWholeOrNotAtAll) {
  write_numbers(data_, 30);
  const TokenizeOptions options{.shard_tokens = 1000, .block_bytes = 2000};
  FaultyFileOps counting(real_file_ops());
  tokenize_corpus(sources_of(data_), number_encoding(), out_.path() / "whole", options, counting);
  const int64_t entries = out_.num_entries(), calls = counting.num_calls();
  for (int64_t call = 1; call < calls; call += 3) {  // the last call syncs the parent, when the folder exists
    FaultyFileOps faulty(real_file_ops(), {Fault::Kind::fail, call, EIO});
    EXPECT_THROW(tokenize_corpus(sources_of(data_), number_encoding(), out_.path() / "t", options, faulty), FileError);
    EXPECT_EQ(out_.num_entries(), entries) << call;
  }
  expect_error([&] { tokenize_corpus(sources_of(data_), number_encoding(), out_.path() / "whole/", options); },
               ExitCode::usage, {"whole", "exists"});
  TokenizeOptions stopped = options;
  stopped.progress = [](const TokenizeProgress& progress) { return progress.records < 20; };
  expect_error([&] { tokenize_corpus(sources_of(data_), number_encoding(), out_.path() / "t", stopped); },
               ExitCode::interrupted, {"nothing was written"});
  EXPECT_EQ(out_.num_entries(), entries);
}

TEST_F(TokenizeTest, BadRecordsAreAnErrorOrCounted) {
  data_.write("a.jsonl", "{\"text\": \"1 2\"}\n{broken\n{\"text\": \"x\"}\n{\"text\": \"3\"}\n");
  TokenizeOptions options{.num_threads = 2, .block_bytes = 10};
  const auto run = [&] { return tokenize_corpus(sources_of(data_), number_encoding(), out_.path() / "t", options); };
  expect_error(run, ExitCode::data, {"a.jsonl' line 2", "JSON"});
  EXPECT_EQ(out_.num_entries(), 0);
  options.read.bad_records = BadRecordPolicy::skip;
  const TokenizeReport report = run();
  EXPECT_EQ(report.manifest.num_tokens(), 3);
  EXPECT_EQ(report.manifest.skipped, 2);
  EXPECT_NE(report.skipped.find("1 malformed, 1 not to be tokenised); the first: "), std::string::npos);
  EXPECT_NE(report.skipped.find("line 2"), std::string::npos) << report.skipped;
}

TEST_F(TokenizeTest, DataWithoutTokensLeavesNothing) {
  data_.write("a.jsonl", "{\"text\": \"\"}\n");
  expect_error([&] { tokenize_corpus(sources_of(data_), number_encoding(), out_.path() / "t", {}); }, ExitCode::data,
               {"no token"});
  EXPECT_EQ(out_.num_entries(), 0);
}

TEST_F(TokenizeTest, ManifestsThatMakeNoSenseAreRefused) {
  for (const char* text : {"", "[]", "{}", "{\"format\": \"gradmill-tokens\", \"version\": 2}",
                           "{\"format\":\"gradmill-tokens\",\"version\":1,\"shards\":[{\"file\":\"../x.tokens\","
                           "\"tokens\":1,\"documents\":1}]}"}) {
    out_.write("tokens.json", text);
    EXPECT_TRUE(is_token_data(out_.path()));
    expect_error([&] { list_token_shards(out_.path()); }, ExitCode::data, {"tokens.json"});
  }
}

class TokenCacheTest : public TokenizeTest {
 protected:
  CachedTokens open(const RecordEncoding& encoding = number_encoding(), const TokenizeOptions& options = {}) {
    return cached_tokens(out_.path(), sources_of(data_), encoding, options);
  }
};

// Tokens of changed content must not be stored under the hash of the old content.
TEST_F(TokenCacheTest, AFileThatChangesWhileItIsReadIsNotCached) {
  write_numbers(data_, 50);
  const fs::path file = data_.path() / "a.jsonl";
  const std::string before = bytes_of(file);
  RecordEncoding growing = number_encoding();
  std::once_flag once;
  growing.encode = [&, inner = growing.encode](const Record& record, TokenDocument& document) {
    std::call_once(once, [&] { std::ofstream(file, std::ios::app) << before; });
    inner(record, document);
  };
  expect_error([&] { open(growing); }, ExitCode::data, {file.string(), "changed while it was being read"});
  std::ofstream(file, std::ios::binary) << before;
  const CachedTokens again = open();
  EXPECT_FALSE(again.was_there);
  EXPECT_EQ(again.report.manifest.records, 175);
}

TEST_F(TokenCacheTest, TheSecondStartReadsWhatTheFirstMade) {
  write_numbers(data_, 50);
  RecordEncoding counting = number_encoding();
  std::atomic<int64_t> calls = 0;
  counting.encode = [&calls, inner = counting.encode](const Record& record, TokenDocument& document) {
    ++calls;
    inner(record, document);
  };
  const CachedTokens first = open(counting);
  EXPECT_FALSE(first.was_there);
  const int64_t before = calls;
  const CachedTokens second = open(counting, {.num_threads = 3, .block_bytes = 100});
  EXPECT_TRUE(second.was_there);
  EXPECT_EQ(calls, before);
  EXPECT_EQ(second.folder, first.folder);
  EXPECT_EQ(second.report.manifest.num_tokens(), first.report.manifest.num_tokens());
}

TEST_F(TokenCacheTest, OtherDataTokenizerOrOptionsMeanAnotherFolder) {
  write_numbers(data_, 50);
  const fs::path folder = open().folder;
  EXPECT_NE(open(number_encoding(true)).folder, folder);
  EXPECT_NE(open(number_encoding(), {.shard_tokens = 100}).folder, folder);
  EXPECT_NE(open(number_encoding(), {.read = {.bad_records = BadRecordPolicy::skip}}).folder, folder);
  // The content counts, even if the size is the same; the name does not.
  std::string text = bytes_of(data_.path() / "b.jsonl");
  fs::rename(data_.path() / "a.jsonl", data_.path() / "a0.jsonl");
  EXPECT_EQ(open().folder, folder);
  const size_t digit = text.rfind("1");
  text[digit] = '2';
  fs::remove(data_.path() / "b.jsonl");
  data_.write("b.jsonl", text);
  EXPECT_NE(open().folder, folder);
}

TEST_F(TokenCacheTest, WhatIsHalfWrittenOrDamagedIsNeverUsed) {
  write_numbers(data_, 50);
  const CachedTokens first = open();
  const std::string shard = bytes_of(first.folder / "shard-00000.tokens");
  for (const auto& damage : std::vector<std::function<void()>>{
           [&] { fs::remove(first.folder / "tokens.json"); },
           [&] { fs::remove(first.folder / "shard-00000.tokens"); },
           [&] { fs::resize_file(first.folder / "shard-00000.tokens", shard.size() / 2); },
           [&] { std::ofstream(first.folder / "tokens.json") << "{"; },
       }) {
    damage();
    const CachedTokens again = open();
    EXPECT_FALSE(again.was_there);
    EXPECT_EQ(again.folder, first.folder);
    EXPECT_EQ(bytes_of(first.folder / "shard-00000.tokens"), shard);
    EXPECT_TRUE(open().was_there);
  }
  // The file of hashes may be lost or damaged.
  const auto age = [&](const char* name) {
    fs::last_write_time(data_.path() / name, fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  for (const char* name : {"a.jsonl", "b.jsonl", "c.jsonl.zst", "d.jsonl.gz", "e.csv"}) age(name);
  EXPECT_FALSE(fs::exists(out_.path() / "files.json"));
  EXPECT_TRUE(open().was_there);
  EXPECT_NE(bytes_of(out_.path() / "files.json").find(hash_file(data_.path() / "a.jsonl")), std::string::npos);
  EXPECT_TRUE(open().was_there);
  std::ofstream(out_.path() / "files.json") << "[1,2";
  EXPECT_TRUE(open().was_there);
}

}  // namespace
}  // namespace gradmill::test
