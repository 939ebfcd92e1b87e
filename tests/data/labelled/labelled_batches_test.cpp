// SPDX-License-Identifier: Apache-2.0
// Coverage, capacity, and independence of threads, ranks and the start.
#include "data/labelled/labelled_batches.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "core/seq_layout.h"
#include "support/errors.h"
#include "data/labelled/word_tokenizer.h"

namespace gradmill::test {
namespace {

std::vector<int64_t> varied_lengths(int64_t count) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(1 + i * i * 7919 % 40);
  return lengths;
}

class LabelledBatchesTest : public testing::Test {
 protected:
  LabelledBatches make(const LabelledBatchOptions& options, std::vector<float> weights = {},
                       std::optional<Augmenter> augmenter = {}) {
    std::vector<int32_t> all(static_cast<size_t>(set_.size()));
    std::iota(all.begin(), all.end(), 0);
    return LabelledBatches(encoded_, all, options, std::move(weights), std::move(augmenter));
  }

  // The micro-batch says of its sequences what the set does, and its other entries are padding.
  void check(const MicroBatch& batch, const LabelledCapacity& capacity) {
    const auto rows = static_cast<size_t>(token_capacity(capacity.num_tokens));
    ASSERT_EQ(batch.tokens.size(), rows);
    ASSERT_EQ(batch.token_types.size(), rows);
    ASSERT_EQ(batch.positions.size(), rows);
    ASSERT_EQ(std::ssize(batch.targets), capacity.max_seqs);
    ASSERT_EQ(std::ssize(batch.cu_seqlens), capacity.max_seqs + 1);
    int64_t tokens = 0;
    for (size_t s = 0; s < static_cast<size_t>(batch.num_seqs); ++s) {
      const int32_t example = batch.examples[s];
      const Sequence expected = encoded_.sequence(example);
      const int32_t begin = batch.cu_seqlens[s], end = batch.cu_seqlens[s + 1];
      ASSERT_EQ(end - begin, std::ssize(expected.ids));
      EXPECT_EQ(std::vector(batch.tokens.begin() + begin, batch.tokens.begin() + end), expected.ids);
      EXPECT_EQ(std::vector(batch.token_types.begin() + begin, batch.token_types.begin() + end), expected.type_ids);
      for (int32_t row = begin; row < end; ++row) EXPECT_EQ(batch.positions[static_cast<size_t>(row)], row - begin);
      EXPECT_EQ(batch.targets[s], encoded_.example(example).label);
      EXPECT_EQ(begin, tokens);
      tokens += end - begin;
    }
    EXPECT_EQ(batch.num_targets, batch.num_seqs);
    EXPECT_EQ(batch.cu_seqlens.back(), tokens);
    EXPECT_LE(tokens, capacity.num_tokens);
    for (auto row = static_cast<size_t>(tokens); row < rows; ++row) EXPECT_EQ(batch.tokens[row], 0);
    for (auto s = static_cast<size_t>(batch.num_seqs); s < batch.targets.size(); ++s) {
      EXPECT_EQ(batch.targets[s], kIgnoredTarget);
    }
  }

  LabelledSet set_ = set_of_lengths(varied_lengths(103));
  WordTokenizer tokenizer_;
  EncodedSet encoded_{set_, tokenizer_, tokenizer_.sequence_template(), {.truncation = {.max_length = 30}}};
};

std::vector<int32_t> examples_of(const LabelledStep& step) {
  std::vector<int32_t> examples;
  for (const MicroBatch& batch : step.micro) {
    examples.insert(examples.end(), batch.examples.begin(), batch.examples.begin() + batch.num_seqs);
  }
  return examples;
}

TEST_F(LabelledBatchesTest, EveryExampleOnceAnEpochInEveryOrder) {
  for (const ExampleOrder order : {ExampleOrder::sequential, ExampleOrder::shuffled, ExampleOrder::grouped}) {
    for (const int64_t batch_size : {1, 10, 103, 1000}) {
      const LabelledBatches batches = make({.order = order, .batch_size = batch_size, .micro_seqs = 4});
      EXPECT_EQ(batches.steps_per_epoch(), (103 + batch_size - 1) / batch_size);
      for (int64_t epoch = 0; epoch < 2; ++epoch) {
        std::multiset<int32_t> seen;
        for (int64_t i = 0; i < batches.steps_per_epoch(); ++i) {
          const LabelledStep step = batches.step(epoch * batches.steps_per_epoch() + i);
          EXPECT_EQ(step.epoch, epoch);
          for (const MicroBatch& batch : step.micro) check(batch, batches.capacity());
          const std::vector<int32_t> examples = examples_of(step);
          EXPECT_EQ(std::ssize(examples), step.num_examples);
          EXPECT_EQ(step.num_labelled, step.num_examples);
          EXPECT_EQ(step.weight_sum, static_cast<double>(step.num_examples));
          seen.insert(examples.begin(), examples.end());
        }
        ASSERT_EQ(seen.size(), 103u);
        EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 103u);
      }
    }
  }
}

TEST_F(LabelledBatchesTest, OrdersDependOnSeedAndEpochAlone) {
  const auto first = [&](uint64_t seed, int64_t step) {
    return examples_of(make({.batch_size = 16, .seed = seed}).step(step));
  };
  EXPECT_EQ(first(1, 0), first(1, 0));
  EXPECT_NE(first(1, 0), first(2, 0));
  EXPECT_NE(first(1, 0), first(1, 7));  // seven steps per epoch
}

// Any step gives the same result, in any order and from any thread.
TEST_F(LabelledBatchesTest, ThreadsAndTheStartDoNotMatter) {
  const AugmentOptions augment{.swap = 0.3, .deletion = 0.2, .token_dropout = 0.1, .dropout_id = 4};
  const LabelledBatchOptions options{.batch_size = 10, .micro_tokens = 64, .seed = 3};
  const auto make_one = [&] { return make(options, {}, Augmenter(augment, {}, 3)); };
  const LabelledBatches shared = make_one();
  constexpr int64_t kSteps = 44;
  std::vector<LabelledStep> steps(kSteps);
  {
    std::vector<std::jthread> threads;
    for (int64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t step = kSteps - 1 - t; step >= 0; step -= 4) steps[static_cast<size_t>(step)] = shared.step(step);
      });
    }
  }
  for (int64_t step = 0; step < kSteps; step += 3) {
    const LabelledStep fresh = make_one().step(step);
    const LabelledStep& other = steps[static_cast<size_t>(step)];
    ASSERT_EQ(fresh.micro.size(), other.micro.size());
    for (size_t i = 0; i < fresh.micro.size(); ++i) {
      EXPECT_EQ(fresh.micro[i].tokens, other.micro[i].tokens);
      EXPECT_EQ(fresh.micro[i].cu_seqlens, other.micro[i].cu_seqlens);
      EXPECT_EQ(fresh.micro[i].examples, other.micro[i].examples);
      EXPECT_EQ(fresh.micro[i].token_base, other.micro[i].token_base);
    }
  }
}

TEST_F(LabelledBatchesTest, RanksShareEachBatch) {
  for (const int64_t num_ranks : {2, 3, 4}) {
    LabelledBatchOptions options{.batch_size = 10, .micro_seqs = 2, .num_ranks = num_ranks};
    for (int64_t step = 0; step < 11; ++step) {
      std::vector<int32_t> parts;
      std::set<int64_t> rows;
      int64_t num_rows = 0;
      for (options.rank = 0; options.rank < num_ranks; ++options.rank) {
        const LabelledStep part = make(options).step(step);
        const std::vector<int32_t> examples = examples_of(part);
        EXPECT_LE(std::ssize(examples), (part.num_examples + num_ranks - 1) / num_ranks);
        parts.insert(parts.end(), examples.begin(), examples.end());
        for (const MicroBatch& batch : part.micro) {
          for (int64_t row = 0; row < batch.cu_seqlens.back(); ++row) rows.insert(batch.token_base + row);
          num_rows += batch.cu_seqlens.back();
        }
      }
      std::vector<int32_t> whole = examples_of(make({.batch_size = 10}).step(step));
      std::ranges::sort(whole);
      std::ranges::sort(parts);
      EXPECT_EQ(parts, whole);
      EXPECT_EQ(std::ssize(rows), num_rows) << "two rows of a step with the same place";
    }
  }
}

TEST_F(LabelledBatchesTest, PackingWastesLittle) {
  const LabelledBatches batches = make({.batch_size = 103, .micro_seqs = 100, .micro_tokens = 128});
  EXPECT_EQ(batches.capacity().num_tokens, 128);
  const LabelledStep step = batches.step(0);
  int64_t tokens = 0;
  for (const MicroBatch& batch : step.micro) tokens += batch.cu_seqlens.back();
  EXPECT_LE(std::ssize(step.micro), (tokens + 127) / 128 + 1);
}

TEST_F(LabelledBatchesTest, WeightsOfClassesAddUp) {
  const LabelledStep step = make({.batch_size = 103}, {0.5f, 2}).step(0);
  EXPECT_EQ(std::ranges::count(step.micro[0].targets, 0), 52);
  EXPECT_DOUBLE_EQ(step.weight_sum, 52 * 0.5 + 51 * 2);
}

TEST_F(LabelledBatchesTest, UnlabelledExamplesHaveNoPartInTheLoss) {
  set_.examples[5].label = kUnlabelled;
  const LabelledStep step = make({.training = false, .order = ExampleOrder::sequential, .batch_size = 10}).step(0);
  EXPECT_EQ(step.num_labelled, 9);
  EXPECT_EQ(step.weight_sum, 9);
  for (const MicroBatch& batch : step.micro) {
    for (size_t s = 0; s < static_cast<size_t>(batch.num_seqs); ++s) {
      EXPECT_EQ(batch.targets[s],
                batch.examples[s] == 5 ? kIgnoredTarget : set_.examples[static_cast<size_t>(batch.examples[s])].label);
    }
    EXPECT_EQ(batch.num_targets, 9);
  }
}

TEST_F(LabelledBatchesTest, RegressionsHaveTargets) {
  set_.regression = true;
  set_.labels = {};
  for (LabelledExample& example : set_.examples) {
    example.label = kUnlabelled;
    example.target = static_cast<float>(example.line) / 2;
  }
  set_.examples[1].target = std::numeric_limits<float>::quiet_NaN();
  const LabelledStep step = make({.order = ExampleOrder::sequential, .batch_size = 4}).step(0);
  EXPECT_EQ(step.num_labelled, 3);
  for (size_t s = 0; s < 4; ++s) {
    const int32_t example = step.micro[0].examples[s];
    EXPECT_EQ(std::bit_cast<float>(step.micro[0].targets[s]),
              example == 1 ? 0.0f : static_cast<float>(example + 1) / 2);
  }
  EXPECT_EQ(step.micro[0].num_targets, 3);
  expect_error([&] { make({.batch_size = 4}, {1, 1}); }, ExitCode::usage, {"2 weights for 0 classes"});
}

TEST_F(LabelledBatchesTest, AugmentationIsForTrainingOnly) {
  const Augmenter augmenter({.deletion = 0.5}, {}, 1);
  expect_error([&] { make({.training = false, .batch_size = 4}, {}, augmenter); }, ExitCode::usage,
               {"not for training"});
  const LabelledBatches batches = make({.order = ExampleOrder::sequential, .batch_size = 50}, {}, augmenter);
  EXPECT_EQ(batches.capacity().num_tokens, 50 * 30);
  int64_t changed = 0;
  for (const MicroBatch& batch : batches.step(1).micro) {
    for (size_t s = 0; s < static_cast<size_t>(batch.num_seqs); ++s) {
      const int32_t begin = batch.cu_seqlens[s], end = batch.cu_seqlens[s + 1];
      const int64_t length = end - begin;
      EXPECT_LE(length, 30);
      changed += length != encoded_.length(batch.examples[s]);
      EXPECT_EQ(batch.tokens[static_cast<size_t>(begin)], WordTokenizer::kFirst);
      EXPECT_EQ(batch.tokens[static_cast<size_t>(end - 1)], WordTokenizer::kLast);
    }
  }
  EXPECT_GT(changed, 25);
}

TEST_F(LabelledBatchesTest, SettingsOutOfRangeAreNamed) {
  const auto refused = [&](const LabelledBatchOptions& options, std::string_view part) {
    expect_error([&] { make(options); }, ExitCode::usage, {part});
  };
  refused({.batch_size = 0}, "batch size is 0");
  refused({.batch_size = int64_t{1} << 40}, "batch size is");
  refused({.batch_size = 1 << 28}, "batch size is");
  refused({.batch_size = 4, .rank = 1}, "rank is 1");
  refused({.batch_size = 4, .num_ranks = 5}, "number of ranks is 5");
  refused({.batch_size = 4, .micro_seqs = -1}, "micro-batch is -1");
  refused({.batch_size = 4, .micro_tokens = 29}, "micro-batch is 29");
  refused({.batch_size = 4, .max_length = 29}, "length of a sequence is 29");
  expect_error([&] { make({.batch_size = 4}, {1, 2, 3}); }, ExitCode::usage, {"3 weights for 2 classes"});
  expect_error([&] { LabelledBatches(encoded_, {}, {.batch_size = 4}); }, ExitCode::data, {"no examples"});
}

}  // namespace
}  // namespace gradmill::test
