// SPDX-License-Identifier: Apache-2.0
#include "data/characters/loader.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "core/rng.h"
#include "core/seq_layout.h"
#include "support/errors.h"
#include "data/characters/same_batch.h"

namespace gradmill::test {
namespace {

std::vector<int32_t> squares(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i % 97);
  return tokens;
}

TEST(TrainLoader, SequencesAreThePromisedWindows) {
  const std::vector<int32_t> tokens = squares(1000);
  const LoaderOptions options{.batch_size = 7, .micro_batch_size = 3, .context = 50, .seed = 42};
  TrainLoader loader(tokens, options, 5);
  EXPECT_EQ(loader.next_step(), 5);
  const StepBatch batch = loader.next();
  EXPECT_EQ(loader.next_step(), 6);
  EXPECT_EQ(batch.step, 5);
  EXPECT_EQ(batch.num_targets, 7 * 50);
  ASSERT_EQ(batch.micro.size(), 3u);
  for (size_t m = 0; m < 3; ++m) {
    const MicroBatch& micro = batch.micro[m];
    const int64_t num_seqs = m == 0 ? 3 : 2, first_seq = m == 0 ? 0 : 2 * static_cast<int64_t>(m) + 1;
    EXPECT_EQ(micro.num_seqs, num_seqs);
    EXPECT_EQ(micro.num_targets, num_seqs * 50);
    EXPECT_EQ(micro.token_base, first_seq * 50);
    ASSERT_EQ(std::ssize(micro.tokens), token_capacity(150));
    EXPECT_EQ(micro.cu_seqlens,
              m == 0 ? (std::vector<int32_t>{0, 50, 100, 150}) : (std::vector<int32_t>{0, 50, 100, 100}));
    for (size_t row = 0; row < micro.tokens.size(); ++row) {
      if (static_cast<int64_t>(row) >= num_seqs * 50) {
        ASSERT_EQ(micro.targets[row], kIgnoredTarget);
        ASSERT_EQ(micro.tokens[row], 0);
        ASSERT_EQ(micro.positions[row], 0);
        continue;
      }
      const auto index = static_cast<uint32_t>(first_seq) + static_cast<uint32_t>(row / 50);
      const RandomBlock words = philox(42, {index, 0, 5, RngSite::kShuffle});
      const size_t at = (uint64_t{words[1]} << 32 | words[0]) % 950 + row % 50;
      ASSERT_EQ(micro.tokens[row], tokens[at]);
      ASSERT_EQ(micro.targets[row], tokens[at + 1]);
      ASSERT_EQ(micro.positions[row], static_cast<int32_t>(row % 50));
    }
  }
}

TEST(TrainLoader, OrderDoesNotDependOnThreadsOrStart) {
  const std::vector<int32_t> tokens = squares(3000);
  LoaderOptions options{.batch_size = 5, .micro_batch_size = 2, .context = 33, .seed = 7};
  std::vector<StepBatch> expected;
  TrainLoader inline_loader(tokens, options);
  for (int step = 0; step < 40; ++step) expected.push_back(inline_loader.next());
  for (int threads : {0, 1, 2, 3, 7}) {
    for (int prefetch : {1, 2, 5}) {
      for (size_t start : {0, 17}) {
        options.num_threads = threads;
        options.prefetch = prefetch;
        TrainLoader loader(tokens, options, static_cast<int64_t>(start));
        for (size_t step = start; step < expected.size(); ++step) {
          SCOPED_TRACE(fmt::format("threads {} prefetch {} start {} step {}", threads, prefetch, start, step));
          expect_same(loader.next(), expected[step]);
        }
      }
    }
  }
}

TEST(TrainLoader, SequencesDoNotDependOnTheCut) {
  const std::vector<int32_t> tokens = squares(3000);
  LoaderOptions options{.batch_size = 6, .context = 128, .seed = 7};
  const MicroBatch whole = TrainLoader(tokens, options).next().micro.at(0);
  for (int64_t size : {1, 2, 4, 6, 100}) {
    options.micro_batch_size = size;
    std::vector<int32_t> joined;
    for (const MicroBatch& micro : TrainLoader(tokens, options).next().micro) {
      EXPECT_EQ(micro.token_base, std::ssize(joined));
      joined.insert(joined.end(), micro.tokens.begin(), micro.tokens.begin() + micro.num_targets);
    }
    EXPECT_EQ(joined, whole.tokens) << size;
  }
}

TEST(TrainLoader, RanksShareEachBatch) {
  const std::vector<int32_t> tokens = squares(3000);
  const LoaderOptions whole{.batch_size = 12, .context = 33, .seed = 7};
  for (int64_t ranks : {1, 2, 3, 12}) {
    for (int64_t micro : {0, 1, 2}) {
      TrainLoader single(tokens, whole, 3);
      std::vector<std::unique_ptr<TrainLoader>> loaders;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        LoaderOptions options = whole;
        options.micro_batch_size = micro;
        options.rank = rank;
        options.num_ranks = ranks;
        loaders.push_back(std::make_unique<TrainLoader>(tokens, options, 3));
      }
      for (int step = 0; step < 3; ++step) {
        const StepBatch expected = single.next();
        std::vector<int32_t> ids, targets;
        for (const auto& loader : loaders) {
          const StepBatch batch = loader->next();
          EXPECT_EQ(batch.step, expected.step);
          EXPECT_EQ(batch.num_targets, expected.num_targets) << "the divisor is that of all ranks";
          for (const MicroBatch& part : batch.micro) {
            EXPECT_EQ(part.token_base, std::ssize(ids));
            ids.insert(ids.end(), part.tokens.begin(), part.tokens.begin() + part.cu_seqlens.back());
            targets.insert(targets.end(), part.targets.begin(), part.targets.begin() + part.cu_seqlens.back());
          }
        }
        const auto& all = expected.micro.at(0);
        EXPECT_TRUE(std::ranges::equal(ids, std::span(all.tokens).first(12 * 33)));
        EXPECT_TRUE(std::ranges::equal(targets, std::span(all.targets).first(12 * 33)));
      }
    }
  }
}

TEST(TrainLoader, StartsReachBothEndsAndSpreadEvenly) {
  constexpr int64_t kTokens = 30, kContext = 20, kDraws = 20000;  // ten start positions
  std::array<int64_t, 10> counts{};
  for (int64_t draw = 0; draw < kDraws; ++draw) {
    counts.at(static_cast<size_t>(window_begin(3, draw / 8, draw % 8, kTokens, kContext)))++;
  }
  // Five standard deviations of a binomial count: 5 * sqrt(20000 * 0.1 * 0.9) = 212.
  for (int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 2000, 212);
}

TEST(TrainLoader, SeedsStepsAndSequencesDiffer) {
  const auto begin = [](uint64_t seed, int64_t step, int64_t index) {
    return window_begin(seed, step, index, 1 << 30, 8);
  };
  EXPECT_NE(begin(1, 0, 0), begin(2, 0, 0));
  EXPECT_NE(begin(1, 0, 0), begin(1, 1, 0));
  EXPECT_NE(begin(1, 0, 0), begin(1, 0, 1));
  EXPECT_NE(begin(1, 0, 1), begin(1, 1, 0));
}

TEST(TrainLoader, OneMoreTokenThanTheContextIsEnough) {
  const std::vector<int32_t> tokens = squares(9);
  const StepBatch batch = TrainLoader(tokens, {.batch_size = 2, .context = 8}).next();
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end() - 1, batch.micro[0].tokens.begin()));
  EXPECT_EQ(batch.micro[0].targets[15], tokens[8]);
}

TEST(TrainLoader, RefusesBadSettings) {
  const std::vector<int32_t> tokens = squares(100);
  const auto expect_refused = [&](const LoaderOptions& options, ExitCode code, std::string_view what) {
    expect_error([&] { TrainLoader loader(tokens, options); }, code, {what});
  };
  expect_refused({.batch_size = 0, .context = 8}, ExitCode::usage, "batch size is 0");
  expect_refused({.batch_size = -4, .context = 8}, ExitCode::usage, "batch size is -4");
  expect_refused({.batch_size = 4, .micro_batch_size = -1, .context = 8}, ExitCode::usage, "micro-batch size is -1");
  expect_refused({.batch_size = 4, .context = 0}, ExitCode::usage, "context is 0");
  expect_refused({.batch_size = 4, .context = 8, .num_ranks = 5}, ExitCode::usage, "number of ranks is 5");
  expect_refused({.batch_size = 4, .context = 8, .rank = 2, .num_ranks = 2}, ExitCode::usage, "rank is 2");
  expect_refused({.batch_size = 4, .context = 8, .num_ranks = 3}, ExitCode::usage, "no equal parts for 3 ranks");
  expect_refused({.batch_size = 4, .context = 8, .num_threads = -1}, ExitCode::usage, "threads is -1");
  expect_refused({.batch_size = 4, .context = 8, .num_threads = 1, .prefetch = 0}, ExitCode::usage, "prefetch is 0");
  expect_refused({.batch_size = 4, .context = 100}, ExitCode::data, "at least 101");
  expect_error([&] { TrainLoader loader(tokens, {.batch_size = 4, .context = 8}, -1); }, ExitCode::usage,
               {"first step"});
}

StepBatch numbered(int64_t step) {
  StepBatch batch;
  batch.step = step;
  return batch;
}

TEST(Prefetcher, StaysWithinItsBound) {
  std::atomic<int64_t> made = 0;
  Prefetcher prefetcher(
      [&](int64_t step) {
        made.fetch_add(1);
        return numbered(step);
      },
      4, 3, 0);
  for (int64_t taken = 0; taken < 20; ++taken) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LE(made.load(), taken + 3);
    EXPECT_EQ(prefetcher.next().step, taken);
  }
}

TEST(Prefetcher, AnExceptionComesInItsTurnAndStays) {
  for (int threads : {0, 1, 3}) {
    Prefetcher prefetcher(
        [](int64_t step) -> StepBatch {
          if (step == 4) throw std::runtime_error("step four");
          return numbered(step);
        },
        threads, 3, 0);
    for (int64_t step = 0; step < 4; ++step) EXPECT_EQ(prefetcher.next().step, step);
    EXPECT_THROW(prefetcher.next(), std::runtime_error);
    EXPECT_THROW(prefetcher.next(), std::runtime_error);
  }
}

TEST(Prefetcher, EndsAtAnyTime) {
  for (int taken = 0; taken < 60; ++taken) {
    Prefetcher prefetcher(numbered, 3, 4, 0);
    for (int i = 0; i < taken % 6; ++i) prefetcher.next();
  }
}

}  // namespace
}  // namespace gradmill::test
