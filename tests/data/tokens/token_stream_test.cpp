// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/token_stream.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <numeric>

#include "data/tokens/edited_batches.h"
#include "data/tokens/number_corpus.h"
#include "support/errors.h"
#include "data/characters/same_batch.h"

namespace gradmill::test {
namespace {

class TokenStreamTest : public testing::TestWithParam<PackMode> {
 protected:
  TokenStreamOptions options(int64_t block_bytes = 4000) const {
    TokenStreamOptions options;
    options.pack = {.mode = GetParam(), .context = 64};
    options.loader = {.batch_size = 4, .seed = 3};
    options.block_bytes = block_bytes;
    return options;
  }

  // Appends the ids and checks that sequences are runs of consecutive numbers with their targets.
  static void append_ids(std::vector<TokenId>& ids, const MicroBatch& micro, PackMode mode) {
    int64_t targets = 0;
    for (size_t seq = 0; seq < static_cast<size_t>(micro.num_seqs); ++seq) {
      const auto end = static_cast<size_t>(micro.cu_seqlens[seq + 1]);
      for (auto row = static_cast<size_t>(micro.cu_seqlens[seq]), first = row; row < end; ++row) {
        if (mode == PackMode::documents && row > first) {
          EXPECT_EQ(micro.tokens[row], micro.tokens[row - 1] + 1);
        }
        EXPECT_EQ(micro.positions[row], static_cast<int32_t>(row - first));
        if (row + 1 < end) {
          EXPECT_EQ(micro.targets[row], micro.tokens[row + 1]);
        }
        targets += micro.targets[row] == kIgnoredTarget ? 0 : 1;
        ids.push_back(micro.tokens[row]);
      }
    }
    EXPECT_EQ(micro.num_targets, targets);
  }

  TemporaryFolder folder_;
  TokenId last_ = write_numbers(folder_, 200);
};

INSTANTIATE_TEST_SUITE_P(Modes, TokenStreamTest, testing::Values(PackMode::documents, PackMode::concatenated));

TEST_P(TokenStreamTest, RanksCountTheTargetsOfAllAfterAnEdit) {
  TokenStreamOptions whole = options();
  whole.loader.batch_size = 12;
  whole.loader.micro_batch_size = 2;
  whole.loader.edit = keep_some_targets;
  for (int64_t num_ranks : {1, 2, 3}) {
    TokenStream single(sources_of(folder_), number_encoding(), whole);
    std::vector<std::unique_ptr<TokenStream>> streams;
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      TokenStreamOptions mine = whole;
      mine.loader.rank = rank;
      mine.loader.num_ranks = num_ranks;
      streams.push_back(std::make_unique<TokenStream>(sources_of(folder_), number_encoding(), mine));
    }
    for (int step = 0; step < 5; ++step) {
      std::vector<StepBatch> ranks;
      for (const auto& stream : streams) ranks.push_back(stream->next());
      expect_ranks_share(ranks, single.next());
    }
  }
}

TEST_P(TokenStreamTest, EveryTokenOnceAnEpochForAnyWorkersAndRanks) {
  std::vector<TokenId> expected;
  for (int64_t ranks : {1, 2, 4}) {
    for (int workers : {0, 1, 4, 7}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} workers", ranks, workers));
      std::vector<std::unique_ptr<TokenStream>> streams;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        TokenStreamOptions mine = options();
        mine.loader.rank = rank;
        mine.loader.num_ranks = ranks;
        mine.loader.num_threads = workers;
        streams.push_back(std::make_unique<TokenStream>(sources_of(folder_), number_encoding(), mine));
      }
      std::vector<TokenId> seen;
      while (std::ssize(seen) < 3 * last_) {
        int64_t base = std::ssize(seen), targets = 0, told = -1;
        const int64_t begin = base;
        for (const auto& stream : streams) {
          const StepBatch batch = stream->next();
          ASSERT_EQ(batch.micro.size(), 1u);
          EXPECT_EQ(batch.micro[0].token_base, base - begin);
          append_ids(seen, batch.micro[0], GetParam());
          base = std::ssize(seen);
          targets += batch.micro[0].num_targets;
          EXPECT_TRUE(told < 0 || told == batch.num_targets);
          told = batch.num_targets;
        }
        EXPECT_EQ(told, targets);
        for (const auto& stream : streams) EXPECT_EQ(stream->position(), streams[0]->position());
      }
      seen.resize(static_cast<size_t>(3 * last_));
      if (expected.empty()) expected = seen;
      ASSERT_EQ(seen, expected);
    }
  }
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<TokenId> one(expected.begin() + epoch * last_, expected.begin() + (epoch + 1) * last_);
    if (epoch > 0) {
      EXPECT_FALSE(std::equal(one.begin(), one.end(), expected.begin()));
    }
    std::ranges::sort(one);
    for (TokenId id = 1; id <= last_; ++id) ASSERT_EQ(one[static_cast<size_t>(id) - 1], id);
  }
}

TEST_P(TokenStreamTest, GoesOnFromAnyPosition) {
  TokenStreamOptions all = options();
  all.loader.micro_batch_size = 3;
  std::vector<StepBatch> expected;
  std::vector<StreamPosition> positions;
  TokenStream whole(sources_of(folder_), number_encoding(), all);
  for (int step = 0; step < 120; ++step) {
    positions.push_back(whole.position());
    expected.push_back(whole.next());
  }
  EXPECT_GE(whole.position().block.epoch, 1);
  for (size_t start = 0; start < 110; start += 4) {
    all.loader.num_threads = static_cast<int>(start % 3);
    const StreamPosition position = StreamPosition::parse(positions[start].to_string());
    EXPECT_EQ(position, positions[start]);
    TokenStream again(sources_of(folder_), number_encoding(), all, position);
    for (size_t step = start; step < start + 6; ++step) {
      SCOPED_TRACE(fmt::format("start {} step {}", start, step));
      expect_same(again.next(), expected[step]);
    }
  }
}

TEST_P(TokenStreamTest, GoingOnReadsOneBlockAWorker) {
  // A step needs less than one block.
  TokenStream whole(sources_of(folder_), number_encoding(), options(10000));
  for (int step = 0; step < 37; ++step) whole.next();
  for (int workers : {0, 2}) {
    TokenStreamOptions mine = options(10000);
    mine.loader.num_threads = workers;
    TokenStream again(sources_of(folder_), number_encoding(), mine, whole.position());
    again.next();
    EXPECT_LE(again.stats().loader.crew.results, 2);
  }
}

TEST_P(TokenStreamTest, RefusesAPositionOfOtherDataOrOptions) {
  TokenStream stream(sources_of(folder_), number_encoding(), options());
  stream.next();
  const StreamPosition position = stream.position();
  const auto expect_refused = [&](const RecordEncoding& encoding, const TokenStreamOptions& other) {
    expect_error([&] { TokenStream again(sources_of(folder_), encoding, other, position); }, ExitCode::data,
                 {"differs from what this stream began with"});
  };
  expect_refused(number_encoding(true), options());
  expect_refused(number_encoding(), options(5000));
  TokenStreamOptions other = options();
  other.loader.seed = 4;
  expect_refused(number_encoding(), other);
  folder_.write("a.jsonl", "{\"text\": \"1\"}");
  expect_refused(number_encoding(), options());
  for (const char* text : {"", "1 2 3", "a b c d e f", "1 2 3 4 5 00ff x", "-1 0 0 0 0 ff"}) {
    expect_error([&] { StreamPosition::parse(text); }, ExitCode::data, {"is not a position"});
  }
}

TEST_P(TokenStreamTest, HoldsABoundedAmountOfMemory) {
  const TemporaryFolder folder;
  NumberCorpus corpus;
  folder.write("a.jsonl", corpus.jsonl(4000));
  folder.write("b.jsonl.gz", gzip(corpus.jsonl(4000)));
  constexpr int64_t kBlock = 20000;
  for (int workers : {0, 3}) {
    TokenStreamOptions mine = options(kBlock);
    mine.loader.num_threads = workers;
    TokenStream stream(sources_of(folder), number_encoding(), mine);
    for (int step = 0; step < 1000; ++step) stream.next();
    const StreamStats stats = stream.stats();
    // Each block takes memory for its text, which is at most one document longer than requested, and then for its
    // tokens and rows, which need less.
    EXPECT_LE(stats.peak_bytes, (workers + 3) * 3 * (kBlock + 4000)) << workers;
    EXPECT_GT(stats.peak_bytes, kBlock);
    EXPECT_LE(stats.held_bytes, stats.peak_bytes);
    EXPECT_GT(stats.records, 4000);
    EXPECT_EQ(stats.loader.steps, 1000);
  }
}

TEST_P(TokenStreamTest, MasksBecomeTargets) {
  TokenStream stream(sources_of(folder_), number_encoding(true), options());
  for (int step = 0; step < 50; ++step) {
    const StepBatch batch = stream.next();
    const MicroBatch& micro = batch.micro[0];
    EXPECT_EQ(batch.num_targets, micro.num_targets);
    int64_t targets = 0;
    for (size_t row = 0; row < micro.targets.size(); ++row) {
      if (micro.targets[row] == kIgnoredTarget) continue;
      EXPECT_EQ(micro.targets[row] % 2, 0);
      ++targets;
    }
    EXPECT_EQ(targets, micro.num_targets);
    EXPECT_GT(targets, 0);
  }
}

TEST_P(TokenStreamTest, AFailingWorkerChangesNothing) {
  TokenStreamOptions mine = options();
  TokenStream expected(sources_of(folder_), number_encoding(), mine);
  RecordEncoding failing = number_encoding();
  std::atomic<int64_t> calls = 0;
  failing.encode = [&calls, inner = failing.encode](const Record& record, TokenDocument& document) {
    if (++calls % 500 == 0) throw std::bad_alloc();
    inner(record, document);
  };
  std::atomic<int> notes = 0;
  mine.loader.num_threads = 3;
  mine.loader.note = [&](const std::string&) { ++notes; };
  TokenStream stream(sources_of(folder_), failing, mine);
  for (int step = 0; step < 150; ++step) expect_same(stream.next(), expected.next());
  EXPECT_GT(notes, 0);
}

TEST_P(TokenStreamTest, BadRecordsAreAnErrorOrCounted) {
  folder_.write("f.jsonl", "{\"text\": \"7000000 words\"}\n{broken\n{\"other\": 1}\n");
  const auto run = [&](BadRecordPolicy policy) {
    TokenStreamOptions mine = options();
    mine.read.bad_records = policy;
    mine.loader.num_threads = 2;
    TokenStream stream(sources_of(folder_), number_encoding(), mine);
    while (stream.position().block.epoch == 0) stream.next();
    return stream.bad_records().summary();
  };
  expect_error([&] { run(BadRecordPolicy::error); }, ExitCode::data, {"f.jsonl", "line 1", "no number"});
  const std::string skipped = run(BadRecordPolicy::skip);
  EXPECT_NE(skipped.find("1 malformed, 1 without a required field, 1 not to be tokenised"), std::string::npos)
      << skipped;
}

TEST(TokenStream, DataWithoutTokensIsAnError) {
  const TemporaryFolder folder;
  folder.write("a.jsonl", "");
  TokenStreamOptions options;
  options.pack.context = 8;
  options.loader.batch_size = 1;
  const auto run = [&] {
    TokenStream stream(sources_of(folder), number_encoding(), options);
    stream.next();
  };
  expect_error(run, ExitCode::data, {"empty"});
  folder.write("a.jsonl", "{\"text\": \"\"}\n");
  folder.write("b.jsonl.gz", gzip("{\"text\": \"\"}\n"));
  expect_error(run, ExitCode::data, {"no token"});
}

TEST(TokenStream, ATruncatedFileIsAnError) {
  const TemporaryFolder folder;
  NumberCorpus corpus;
  const std::string whole = zstd(corpus.jsonl(3000));
  folder.write("a.jsonl.zst", whole.substr(0, whole.size() - 10));
  TokenStreamOptions options;
  options.pack.context = 64;
  options.loader = {.batch_size = 4, .num_threads = 2};
  options.block_bytes = 10000;
  const auto run = [&] {
    TokenStream stream(sources_of(folder), number_encoding(), options);
    for (int step = 0; step < 10000; ++step) stream.next();
  };
  expect_error(run, ExitCode::data, {"a.jsonl.zst' is cut short"});
}

}  // namespace
}  // namespace gradmill::test
