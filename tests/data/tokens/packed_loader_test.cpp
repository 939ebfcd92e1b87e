// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/packed_loader.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>

#include "core/seq_layout.h"
#include "data/tokens/edited_batches.h"
#include "data/tokens/epoch_order.h"
#include "support/errors.h"
#include "data/characters/same_batch.h"
#include "data/tokens/shard_fixture.h"

namespace gradmill::test {
namespace {

// Three shards of documents with 0 to 400 tokens, in small blocks.
class PackedLoaderTest : public testing::TestWithParam<PackMode> {
 protected:
  PackedLoaderTest() {
    for (int64_t document = 0; document < set_.num_documents(); ++document)
      ends_.push_back(set_.document_end(document));
  }

  int64_t total() const { return set_.num_tokens(); }
  // Whether `index` is the last token of the unit that targets must not leave.
  bool is_last(int64_t index) const {
    if (GetParam() == PackMode::concatenated) return index + 1 == total();
    return std::binary_search(ends_.begin(), ends_.end(), index + 1);
  }

  // Checks every row against the contract and returns the indices of the tokens in order.
  std::vector<int64_t> indices_of(const MicroBatch& batch, int64_t rows, int64_t context, int64_t seqs_per_row) const {
    std::vector<int64_t> indices;
    EXPECT_EQ(std::ssize(batch.tokens), token_capacity(rows * context));
    EXPECT_EQ(batch.targets.size(), batch.tokens.size());
    EXPECT_EQ(batch.positions.size(), batch.tokens.size());
    EXPECT_EQ(std::ssize(batch.cu_seqlens), rows * seqs_per_row + 1);
    size_t row = 0;
    int64_t targets = 0;
    for (size_t seq = 0; seq + 1 < batch.cu_seqlens.size(); ++seq) {
      const auto end = static_cast<size_t>(batch.cu_seqlens[seq + 1]);
      EXPECT_EQ(row < end, static_cast<int64_t>(seq) < batch.num_seqs);
      EXPECT_LE(static_cast<int64_t>(end - row), context);
      for (int32_t position = 0; row < end; ++row, ++position) {
        const int64_t index = batch.tokens[row] - value_of(0);
        const bool wrong_target = batch.targets[row] != (is_last(index) ? kIgnoredTarget : value_of(index + 1));
        // Within a sequence tokens follow each other, and never from one document into the next.
        const bool breaks = position > 0 && (index != indices.back() + 1 || is_last(index - 1));
        if (wrong_target || breaks || batch.positions[row] != position) ADD_FAILURE() << "row " << row;
        targets += batch.targets[row] == kIgnoredTarget ? 0 : 1;
        indices.push_back(index);
      }
    }
    EXPECT_EQ(batch.num_targets, targets);
    for (; row < batch.tokens.size(); ++row) {
      if (batch.tokens[row] != 0 || batch.positions[row] != 0 || batch.targets[row] != kIgnoredTarget) {
        ADD_FAILURE() << "padding " << row;
      }
    }
    return indices;
  }

  TemporaryFolder folder_;
  ShardSet set_{write_shards(folder_, {mixed_lengths(300, 1), mixed_lengths(1, 2), mixed_lengths(150, 3)})};
  std::vector<int64_t> ends_;
};

INSTANTIATE_TEST_SUITE_P(Modes, PackedLoaderTest, testing::Values(PackMode::documents, PackMode::concatenated));

TEST_P(PackedLoaderTest, RanksCountTheTargetsOfAllAfterAnEdit) {
  const PackPlan plan(set_, {.mode = GetParam(), .context = 64, .block_tokens = 1000});
  const PackedLoaderOptions options{.batch_size = 12, .micro_batch_size = 2, .seed = 9, .edit = keep_some_targets};
  for (int64_t num_ranks : {1, 2, 3}) {
    PackedLoader single(plan, options);
    std::vector<std::unique_ptr<PackedLoader>> loaders;
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      PackedLoaderOptions mine = options;
      mine.rank = rank;
      mine.num_ranks = num_ranks;
      mine.num_threads = static_cast<int>(rank);
      loaders.push_back(std::make_unique<PackedLoader>(plan, mine));
    }
    for (int step = 0; step < 5; ++step) {
      std::vector<StepBatch> ranks;
      for (const auto& loader : loaders) ranks.push_back(loader->next());
      expect_ranks_share(ranks, single.next());
    }
  }
}

TEST_P(PackedLoaderTest, EveryTokenOnceAnEpochForAnyWorkersAndRanks) {
  const PackPlan plan(set_, {.mode = GetParam(), .context = 64, .block_tokens = 1000});
  ASSERT_GE(plan.num_blocks(), 8);
  constexpr int64_t kBatch = 4;
  const int64_t steps = plan.num_rows();  // four epochs; an epoch may end within a step
  std::vector<int64_t> expected;          // the order with one worker and one rank
  for (int64_t ranks : {1, 2, 4}) {
    std::optional<std::vector<std::vector<StepBatch>>> first;
    for (int workers : {0, 1, 4, 7}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} workers", ranks, workers));
      std::vector<std::vector<StepBatch>> batches(static_cast<size_t>(ranks));
      for (int64_t rank = 0; rank < ranks; ++rank) {
        PackedLoader loader(
            plan,
            {.batch_size = kBatch, .seed = 9, .rank = rank, .num_ranks = ranks, .num_threads = workers, .prefetch = 5});
        for (int64_t step = 0; step < steps; ++step) batches[static_cast<size_t>(rank)].push_back(loader.next());
      }
      std::vector<int64_t> seen;
      for (size_t step = 0; step < static_cast<size_t>(steps); ++step) {
        int64_t base = 0, targets = 0;
        for (const auto& of_rank : batches) {
          const StepBatch& batch = of_rank[step];
          ASSERT_EQ(batch.micro.size(), 1u);
          EXPECT_EQ(batch.micro[0].token_base, base);
          const auto indices = indices_of(batch.micro[0], kBatch / ranks, 64, plan.seqs_per_row());
          seen.insert(seen.end(), indices.begin(), indices.end());
          base += std::ssize(indices);
          targets += batch.micro[0].num_targets;
        }
        for (const auto& of_rank : batches) ASSERT_EQ(of_rank[step].num_targets, targets);
      }
      ASSERT_EQ(std::ssize(seen), 4 * total());
      if (expected.empty()) expected = seen;
      ASSERT_EQ(seen, expected);
      if (!first) first = batches;
      for (size_t rank = 0; rank < batches.size(); ++rank) {
        for (size_t step = 0; step < static_cast<size_t>(steps); ++step) {
          expect_same(batches[rank][step], (*first)[rank][step]);
        }
      }
    }
  }
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<int64_t> one(expected.begin() + epoch * total(), expected.begin() + (epoch + 1) * total());
    if (epoch > 0) {
      EXPECT_FALSE(std::equal(one.begin(), one.end(), expected.begin()));
    }
    std::sort(one.begin(), one.end());
    for (int64_t index = 0; index < total(); ++index) ASSERT_EQ(one[static_cast<size_t>(index)], index);
  }
}

TEST_P(PackedLoaderTest, ResumesAtAnyStep) {
  const PackPlan plan(set_, {.mode = GetParam(), .context = 64, .block_tokens = 1000});
  PackedLoaderOptions options{.batch_size = 6, .micro_batch_size = 4, .seed = 3};
  const int64_t steps = 2 * plan.num_rows() / options.batch_size + 3;  // into the third epoch
  std::vector<StepBatch> expected;
  PackedLoader all(plan, options);
  for (int64_t step = 0; step < steps; ++step) expected.push_back(all.next());
  for (int64_t start = 0; start < steps; ++start) {
    // As another process would, makes a new plan.
    const PackPlan again(set_, {.mode = GetParam(), .context = 64, .block_tokens = 1000});
    options.num_threads = static_cast<int>(start % 4);
    PackedLoader loader(again, options, start);
    for (int64_t step = start; step < std::min(start + 9, steps); ++step) {
      SCOPED_TRACE(fmt::format("start {} step {}", start, step));
      expect_same(loader.next(), expected[static_cast<size_t>(step)]);
    }
  }
}

TEST_P(PackedLoaderTest, TokensDoNotDependOnTheCut) {
  const PackPlan plan(set_, {.mode = GetParam(), .context = 64, .block_tokens = 5000});
  PackedLoaderOptions options{.batch_size = 12, .seed = 3};
  const StepBatch whole = PackedLoader(plan, options, 2).next();
  const std::vector<int64_t> expected = indices_of(whole.micro.at(0), 12, 64, plan.seqs_per_row());
  for (int64_t size : {1, 2, 5, 12, 100}) {
    options.micro_batch_size = size;
    const StepBatch batch = PackedLoader(plan, options, 2).next();
    EXPECT_EQ(batch.num_targets, whole.num_targets);
    std::vector<int64_t> joined;
    for (const MicroBatch& micro : batch.micro) {
      EXPECT_EQ(micro.token_base, std::ssize(joined));
      const auto indices = indices_of(micro, std::min<int64_t>(size, 12), 64, plan.seqs_per_row());
      joined.insert(joined.end(), indices.begin(), indices.end());
    }
    EXPECT_EQ(joined, expected) << size;
  }
}

TEST_P(PackedLoaderTest, AnyContextAndBlockHasEveryTokenOnce) {
  for (int64_t context : {1, 2, 7, 64, 100, 1000, 100000}) {
    for (int64_t block_tokens : {1, 300, 1 << 22}) {
      for (int64_t row_documents : {0, 1, 3}) {
        SCOPED_TRACE(fmt::format("context {}, blocks of {}, {} a row", context, block_tokens, row_documents));
        const PackPlan plan(
            set_,
            {.mode = GetParam(), .context = context, .row_documents = row_documents, .block_tokens = block_tokens});
        std::vector<int32_t> seen(static_cast<size_t>(total()), 0);
        int64_t rows = 0;
        for (int64_t block = 0; block < plan.num_blocks(); ++block) {
          const RowList list = plan.block(block);
          ASSERT_EQ(list.num_rows(), plan.num_rows(block));
          rows += list.num_rows();
          for (int64_t row = 0; row < list.num_rows(); ++row) {
            int64_t length = 0;
            for (const Piece& piece : list.rows(row, row + 1)) {
              length += piece.length;
              for (int64_t i = 0; i < piece.length; ++i) ++seen[static_cast<size_t>(piece.begin + i)];
            }
            ASSERT_LE(length, context);
            ASSERT_LE(std::ssize(list.rows(row, row + 1)), plan.seqs_per_row());
          }
        }
        ASSERT_EQ(rows, plan.num_rows());
        ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), total());
      }
    }
  }
}

TEST_P(PackedLoaderTest, WithoutShufflingBlocksComeInOrder) {
  const PackPlan plan(set_, {.mode = GetParam(), .context = 64, .block_tokens = 64});
  PackedLoader loader(plan, {.batch_size = 1, .shuffle = false});
  int64_t previous = -1;
  for (int64_t step = 0; step < plan.num_rows(); ++step) {
    const MicroBatch batch = loader.next().micro.at(0);
    const std::vector<int64_t> indices = indices_of(batch, 1, 64, plan.seqs_per_row());
    EXPECT_GT(*std::min_element(indices.begin(), indices.end()) + 64, previous);
    previous = *std::max_element(indices.begin(), indices.end());
  }
  EXPECT_EQ(previous, total() - 1);
}

TEST_P(PackedLoaderTest, ConcatenatedRowsAreFullAndPackedOnesNearlySo) {
  const PackPlan plan(set_, {.mode = GetParam(), .context = 64, .row_documents = 64});
  const int64_t least = (total() + 63) / 64;
  if (GetParam() == PackMode::concatenated) {
    EXPECT_EQ(plan.num_rows(), least);
  } else {
    EXPECT_LE(plan.num_rows(), least + least / 50);
  }
}

TEST_P(PackedLoaderTest, RefusesBadSettings) {
  const auto expect_plan_refused = [&](PackOptions options, std::string_view what) {
    options.mode = GetParam();
    expect_error([&] { PackPlan plan(set_, options); }, ExitCode::usage, {what});
  };
  expect_plan_refused({.context = 0}, "context is 0");
  expect_plan_refused({.context = 1 << 25}, "context is 33554432");
  expect_plan_refused({.context = 8, .row_documents = -1}, "row are -1");
  expect_plan_refused({.context = 8, .block_tokens = 0}, "block are 0");
  const PackPlan plan(set_, {.mode = GetParam(), .context = 64});
  const auto expect_refused = [&](const PackedLoaderOptions& options, std::string_view what) {
    expect_error([&] { PackedLoader loader(plan, options); }, ExitCode::usage, {what});
  };
  expect_refused({.batch_size = 0}, "batch size is 0");
  expect_refused({.batch_size = int64_t{1} << 31}, "batch size is 2147483648");
  expect_refused({.batch_size = 4, .micro_batch_size = -1}, "micro-batch size is -1");
  expect_refused({.batch_size = 4, .num_ranks = 3}, "4 rows has no equal parts for 3");
  expect_refused({.batch_size = 4, .rank = 2, .num_ranks = 2}, "rank is 2");
  expect_refused({.batch_size = 4, .num_threads = -1}, "threads is -1");
  expect_refused({.batch_size = 4, .num_threads = 1, .prefetch = 0}, "prefetch is 0");
}

// Tokens whose index is divisible by three are not learned.
std::vector<std::filesystem::path> write_masked(const TemporaryFolder& folder, const std::vector<int64_t>& lengths) {
  TokenShardWriter writer(folder.path() / "masked.tokens", kWideVocab, LearnedPlane::present);
  int64_t token = 0;
  for (int64_t length : lengths) {
    std::vector<int32_t> ids;
    std::vector<uint8_t> learned;
    for (int64_t i = 0; i < length; ++i, ++token) {
      ids.push_back(value_of(token));
      learned.push_back(token % 3 == 0 ? 0 : 1);
    }
    writer.add_document(ids, learned);
  }
  writer.finish();
  return {folder.path() / "masked.tokens"};
}

TEST(PackedLoader, TokensThatAreNotLearnedAreNoTargets) {
  const TemporaryFolder folder;
  const ShardSet set(write_masked(folder, mixed_lengths(200, 4)));
  for (PackMode mode : {PackMode::documents, PackMode::concatenated}) {
    const PackPlan plan(set, {.mode = mode, .context = 64, .block_tokens = 2000});
    PackedLoader whole(plan, {.batch_size = 4});
    PackedLoader half(plan, {.batch_size = 4, .rank = 1, .num_ranks = 2});
    for (int step = 0; step < 40; ++step) {
      const StepBatch batch = whole.next();
      const MicroBatch& micro = batch.micro.at(0);
      int64_t targets = 0;
      for (int32_t seq = 0; seq < micro.num_seqs; ++seq) {
        const int32_t end = micro.cu_seqlens[static_cast<size_t>(seq) + 1];
        for (int32_t row = micro.cu_seqlens[static_cast<size_t>(seq)]; row < end; ++row) {
          const auto at = static_cast<size_t>(row);
          const int32_t next = micro.tokens[at] + 1;
          const bool learned = (next - value_of(0)) % 3 != 0;
          // The last of a sequence has the token behind it or, at a document's end, none.
          if (row + 1 < end || micro.targets[at] != kIgnoredTarget) {
            ASSERT_EQ(micro.targets[at], learned ? next : kIgnoredTarget);
          }
          targets += micro.targets[at] == kIgnoredTarget ? 0 : 1;
        }
      }
      EXPECT_EQ(micro.num_targets, targets);
      EXPECT_EQ(batch.num_targets, targets);
      EXPECT_EQ(half.next().num_targets, targets);
    }
  }
}

TEST(PackedLoader, DamagedTokensAreAnErrorOrLeftOut) {
  const TemporaryFolder folder;
  const auto paths = write_shards(folder, {std::vector<int64_t>(4000, 50)});  // four blocks of 65536 ids
  std::fstream file(paths[0], std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(64 + static_cast<int64_t>(kShardBlockBytes) + 5).put('!');
  file.close();
  const ShardSet set(paths);
  const PackPlan plan(set, {.context = 64, .block_tokens = 200000});  // one block, so that every step has good rows
  ASSERT_EQ(plan.num_rows() % 40, 0);
  PackedLoaderOptions options{.batch_size = 40, .num_threads = 2};
  EXPECT_THROW(
      {
        PackedLoader loader(plan, options);
        for (int64_t step = 0; step < 100; ++step) loader.next();
      },
      Error);

  options.damaged = BadRecordPolicy::skip;
  std::mutex mutex;
  std::vector<std::string> notes;
  options.note = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    notes.push_back(line);
  };
  std::vector<int64_t> seen(static_cast<size_t>(set.num_tokens()), 0);
  std::vector<StepBatch> expected;
  for (int64_t ranks : {1, 2}) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      options.rank = rank;
      options.num_ranks = ranks;
      PackedLoader loader(plan, options);
      for (int64_t step = 0; step < plan.num_rows() / 40; ++step) {
        const StepBatch batch = loader.next();
        if (ranks == 1) {
          expected.push_back(batch);
        } else {
          EXPECT_EQ(batch.num_targets, expected[static_cast<size_t>(step)].num_targets);
        }
        for (int32_t token : batch.micro[0].tokens) {
          if (token != 0) ++seen[static_cast<size_t>(token - value_of(0))];
        }
      }
    }
  }
  // Documents that touch the damaged block are missing. All others are present, once with one rank and once with two.
  for (int64_t token = 0; token < set.num_tokens(); ++token) {
    const int64_t document = token / 50 * 50;
    const bool lost = document + 50 > 65536 && document < 2 * 65536;
    ASSERT_EQ(seen[static_cast<size_t>(token)], lost ? 0 : 2) << token;
  }
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes[0].find("tokens 65536 to 131071"), std::string::npos) << notes[0];
}

TEST(PackedLoader, TellsHowMuchItGaveAndHowLongItWaited) {
  const TemporaryFolder folder;
  const ShardSet set(write_shards(folder, {mixed_lengths(200, 4)}));
  const PackPlan plan(set, {.mode = PackMode::concatenated, .context = 64});
  for (int threads : {0, 2}) {
    PackedLoader loader(plan, {.batch_size = 4, .shuffle = false, .num_threads = threads});
    for (int step = 0; step < 5; ++step) loader.next();
    const LoaderStats stats = loader.stats();
    EXPECT_EQ(stats.steps, 5);
    EXPECT_EQ(stats.tokens, 5 * 4 * 64);
    EXPECT_EQ(stats.crew.workers, threads);
    EXPECT_GT(stats.crew.busy_seconds, 0);
    EXPECT_GE(stats.crew.wait_seconds, 0);
  }
}

TEST(PackPlan, RefusesShardsWithoutTokens) {
  const TemporaryFolder folder;
  const ShardSet set(write_shards(folder, {{}, {0, 0}}));
  expect_error([&] { PackPlan plan(set, {.context = 8}); }, ExitCode::data, {"empty"});
}

TEST(PackPlan, VeryShortDocumentsStayWithinABlocksBound) {
  const TemporaryFolder folder;
  const ShardSet set(write_shards(folder, {std::vector<int64_t>(200000, 1)}));
  const PackPlan plan(set, {.context = 1024});
  EXPECT_EQ(plan.num_blocks(), 4);  // of at most 65536 documents
  EXPECT_EQ(plan.block(0).pieces.size(), 65536u);
  EXPECT_EQ(plan.num_rows(), 3 * 1024 + (200000 - 3 * 65536 + 63) / 64);
}

TEST(Shuffled, IsAFairPermutationOfItsArguments) {
  EXPECT_TRUE(shuffled(0, 1, 2, 3).empty());
  const std::vector<int32_t> order = shuffled(1000, 1, 2, 3);
  EXPECT_EQ(order, shuffled(1000, 1, 2, 3));
  EXPECT_NE(order, shuffled(1000, 2, 2, 3));
  EXPECT_NE(order, shuffled(1000, 1, 3, 3));
  EXPECT_NE(order, shuffled(1000, 1, 2, 4));
  std::array<int64_t, 6> counts{};
  for (int64_t epoch = 0; epoch < 6000; ++epoch) {
    std::vector<int32_t> three = shuffled(3, 8, epoch, 0);
    ++counts.at(static_cast<size_t>(three[0] * 2 + (three[1] > three[2] ? 1 : 0)));
    std::sort(three.begin(), three.end());
    ASSERT_EQ(three, (std::vector<int32_t>{0, 1, 2}));
  }
  for (int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 1000, 150);  // five standard deviations
}

}  // namespace
}  // namespace gradmill::test
