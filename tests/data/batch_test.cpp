// SPDX-License-Identifier: Apache-2.0
#include "data/batch.h"

#include <numeric>

#include "core/seq_layout.h"
#include "support/errors.h"
#include "ops/cross_entropy/cross_entropy.h"

namespace gradmill::test {
namespace {

static_assert(kIgnoredTarget == kIgnoredTarget);

std::vector<int32_t> counting(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 1000);  // no token equals the padding
  return tokens;
}

// Checks every row against the contract of MicroBatch; the tokens must come from counting().
void expect_consistent(const MicroBatch& batch, int64_t max_seqs, int64_t context) {
  const auto capacity = static_cast<size_t>(token_capacity(max_seqs * context));
  ASSERT_EQ(batch.tokens.size(), capacity);
  ASSERT_EQ(batch.targets.size(), capacity);
  ASSERT_EQ(batch.positions.size(), capacity);
  ASSERT_EQ(std::ssize(batch.cu_seqlens), max_seqs + 1);
  ASSERT_LE(batch.num_seqs, max_seqs);
  EXPECT_EQ(batch.cu_seqlens[0], 0);
  size_t row = 0;
  for (int64_t seq = 0; seq < max_seqs; ++seq) {
    const auto end = static_cast<size_t>(batch.cu_seqlens[static_cast<size_t>(seq) + 1]);
    ASSERT_EQ(row < end, seq < batch.num_seqs);
    ASSERT_LE(static_cast<int64_t>(end - row), context);
    for (int32_t position = 0; row < end; ++row, ++position) {
      ASSERT_EQ(batch.positions[row], position);
      ASSERT_EQ(batch.targets[row], batch.tokens[row] + 1);
      if (position > 0) {
        ASSERT_EQ(batch.tokens[row], batch.tokens[row - 1] + 1);
      }
    }
  }
  EXPECT_EQ(batch.num_targets, static_cast<int64_t>(row));
  for (; row < capacity; ++row) {
    ASSERT_EQ(batch.tokens[row], 0);
    ASSERT_EQ(batch.positions[row], 0);
    ASSERT_EQ(batch.targets[row], kIgnoredTarget);
  }
}

std::vector<int32_t> targets_of(const std::vector<MicroBatch>& batches) {
  std::vector<int32_t> targets;
  for (const MicroBatch& batch : batches) {
    for (int32_t target : batch.targets) {
      if (target != kIgnoredTarget) targets.push_back(target);
    }
  }
  return targets;
}

TEST(EvalBatches, EveryTokenIsATargetOnce) {
  for (int64_t size : {2, 9, 10, 11, 64, 65, 66, 200, 1000}) {
    for (int64_t batch_size : {1, 3, 8}) {
      SCOPED_TRACE(fmt::format("{} tokens, {} a batch", size, batch_size));
      const std::vector<int32_t> tokens = counting(size);
      const std::vector<MicroBatch> batches = eval_batches(tokens, batch_size, 8, 0);
      int64_t seqs = 0;
      for (const MicroBatch& batch : batches) {
        expect_consistent(batch, batch_size, 8);
        EXPECT_EQ(batch.token_base, seqs * 8);
        seqs += batch.num_seqs;
      }
      EXPECT_EQ(seqs, (size - 1 + 7) / 8);
      EXPECT_EQ(targets_of(batches), std::vector<int32_t>(tokens.begin() + 1, tokens.end()));
    }
  }
}

TEST(EvalBatches, MaxTokensTakesEvenlySpacedWindows) {
  const std::vector<int32_t> tokens = counting(1001);  // 100 windows of 10
  const std::vector<MicroBatch> batches = eval_batches(tokens, 2, 10, 45);
  ASSERT_EQ(batches.size(), 2u);
  std::vector<int32_t> firsts;
  for (const MicroBatch& batch : batches) {
    expect_consistent(batch, 2, 10);
    firsts.push_back(batch.tokens[0]);
    firsts.push_back(batch.tokens[10]);
  }
  EXPECT_EQ(firsts, (std::vector<int32_t>{1000, 1250, 1500, 1750}));
}

TEST(EvalBatches, MaxTokensNeverOverlapsOrExceeds) {
  const std::vector<int32_t> tokens = counting(107);
  for (int64_t max_tokens = 1; max_tokens < 120; ++max_tokens) {
    SCOPED_TRACE(max_tokens);
    const std::vector<int32_t> targets = targets_of(eval_batches(tokens, 3, 10, max_tokens));
    EXPECT_LE(std::ssize(targets), max_tokens);
    EXPECT_GE(std::ssize(targets), std::min<int64_t>({max_tokens, 106, std::max<int64_t>(max_tokens - 9, 1)}));
    for (size_t i = 1; i < targets.size(); ++i) ASSERT_LT(targets[i - 1], targets[i]);
  }
  EXPECT_EQ(targets_of(eval_batches(tokens, 3, 10, 106)).size(), 106u);
}

TEST(EvalBatches, RefusesBadSizes) {
  const std::vector<int32_t> tokens = counting(50);
  expect_error([&] { eval_batches(tokens, 0, 8, 0); }, ExitCode::usage, {"batch size"});
  expect_error([&] { eval_batches(tokens, 4, -1, 0); }, ExitCode::usage, {"context"});
  expect_error([&] { eval_batches(tokens, 4, 8, -1); }, ExitCode::usage, {"-1"});
  expect_error([&] { eval_batches(std::span(tokens).first(1), 4, 8, 0); }, ExitCode::data, {"1 tokens"});
}

}  // namespace
}  // namespace gradmill::test
