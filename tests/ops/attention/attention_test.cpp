// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention.h"

#include "ops/attention/attention_fixture.h"

namespace gradmill::test {
namespace {

const std::vector<AttentionCase>& cases() {
  static const std::vector<AttentionCase> all = {
      {.name = "causal, ragged, with empty ones",
       .q_lens = {70, 0, 1, 130, 9, 0},
       .kv_lens = {70, 0, 1, 130, 9, 0},
       .heads = 4,
       .kv_heads = 2,
       .head_dim = 32,
       .padding = 13},
      {.name = "causal, whole tiles",
       .q_lens = {64, 128},
       .kv_lens = {64, 128},
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 64},
      {.name = "bidirectional",
       .q_lens = {3, 64, 81},
       .kv_lens = {3, 64, 81},
       .heads = 4,
       .kv_heads = 1,
       .head_dim = 8,
       .mask = {-1, -1},
       .max_len = 200},
      {.name = "sliding window",
       .q_lens = {200, 33},
       .kv_lens = {200, 33},
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 64,
       .mask = {19, 0}},
      {.name = "band",
       .q_lens = {100, 64, 129},
       .kv_lens = {100, 64, 129},
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 72,
       .mask = {7, 7}},
      {.name = "itself and the one before", .q_lens = {66}, .kv_lens = {66}, .head_dim = 16, .mask = {1, 0}},
      {.name = "everything after",
       .q_lens = {90},
       .kv_lens = {90},
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 24,
       .mask = {0, -1},
       .padding = 0},
      {.name = "keys from a cache",
       .q_lens = {1, 5, 70, 0},
       .kv_lens = {130, 70, 70, 9},
       .heads = 4,
       .kv_heads = 2,
       .head_dim = 32},
      {.name = "keys from a cache, window",
       .q_lens = {67, 3},
       .kv_lens = {150, 99},
       .heads = 1,
       .kv_heads = 1,
       .head_dim = 40,
       .mask = {30, 3}},
      {.name = "queries that see nothing",
       .q_lens = {70, 2},
       .kv_lens = {3, 0},
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 8},
      {.name = "widest head", .q_lens = {20}, .kv_lens = {20}, .heads = 2, .kv_heads = 1, .head_dim = 256},
      {.name = "dropout",
       .q_lens = {70, 11},
       .kv_lens = {81, 11},
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 32,
       .max_len = 83,
       .dropout = true},
      {.name = "dropout, band",
       .q_lens = {130},
       .kv_lens = {130},
       .heads = 3,
       .kv_heads = 3,
       .head_dim = 16,
       .mask = {9, 40},
       .dropout = true},
      {.name = "dropout, short sequences",
       .q_lens = {256, 100},
       .kv_lens = {256, 100},
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 64,
       .dropout = true},
      {.name = "dropout, short sequences, keys from a cache, band",
       .q_lens = {90, 3, 0, 60},
       .kv_lens = {200, 50, 33, 17},
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 48,
       .mask = {70, 20},
       .dropout = true},
      {.name = "dropout, many short sequences, grouped heads",
       .q_lens = std::vector<int32_t>(70, 9),
       .kv_lens = std::vector<int32_t>(70, 9),
       .heads = 4,
       .kv_heads = 2,
       .head_dim = 64,
       .dropout = true},
      {.name = "dropout, long sequence",
       .q_lens = {290},
       .kv_lens = {290},
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 64,
       .max_len = 293,
       .dropout = true},
      {.name = "dropout, heads of 128",
       .q_lens = {70, 11},
       .kv_lens = {70, 11},
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 128,
       .dropout = true},
      {.name = "dropout, heads of 192",
       .q_lens = {70, 11},
       .kv_lens = {70, 11},
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 192,
       .dropout = true},
      {.name = "dense, heads of an odd width",
       .q_lens = {50, 50},
       .kv_lens = {50, 50},
       .heads = 3,
       .kv_heads = 3,
       .head_dim = 13,
       .padding = 7,
       .dense = true},
      {.name = "dense, whole tiles",
       .q_lens = {128, 128},
       .kv_lens = {128, 128},
       .heads = 4,
       .kv_heads = 4,
       .head_dim = 64,
       .padding = 0,
       .dense = true},
      {.name = "dense, whole tiles, grouped heads",
       .q_lens = {256, 256},
       .kv_lens = {256, 256},
       .heads = 6,
       .kv_heads = 2,
       .head_dim = 64,
       .padding = 0,
       .dense = true},
      {.name = "dense, more tiles than stages, one key head",
       .q_lens = {640},
       .kv_lens = {640},
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 64,
       .padding = 0,
       .dense = true},
      {.name = "dense, whole tiles, bidirectional",
       .q_lens = {256, 256},
       .kv_lens = {256, 256},
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 64,
       .mask = {-1, -1},
       .padding = 0,
       .dense = true},
      {.name = "dense, grouped heads, odd length",
       .q_lens = {87, 87, 87},
       .kv_lens = {87, 87, 87},
       .heads = 4,
       .kv_heads = 2,
       .head_dim = 128,
       .padding = 7,
       .dense = true},
      {.name = "dense, bidirectional",
       .q_lens = {150, 150},
       .kv_lens = {150, 150},
       .heads = 3,
       .kv_heads = 1,
       .head_dim = 80,
       .mask = {-1, -1},
       .dense = true},
      {.name = "dense, window",
       .q_lens = {256},
       .kv_lens = {256},
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 64,
       .mask = {31, 0},
       .dense = true},
      {.name = "dense, band, narrow heads",
       .q_lens = {65, 65, 65, 65},
       .kv_lens = {65, 65, 65, 65},
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 40,
       .mask = {20, 3},
       .dense = true},
      {.name = "dense, dropout",
       .q_lens = {70, 70},
       .kv_lens = {70, 70},
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 32,
       .dropout = true,
       .dense = true},
      {.name = "ragged, long",
       .q_lens = {300, 0, 77, 1, 128},
       .kv_lens = {300, 0, 77, 1, 128},
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 64,
       .padding = 6},
      {.name = "ragged, grouped heads, wide",
       .q_lens = {33, 129, 64},
       .kv_lens = {33, 129, 64},
       .heads = 4,
       .kv_heads = 2,
       .head_dim = 128,
       .padding = 30},
      {.name = "heads of an odd width",
       .q_lens = {50, 70},
       .kv_lens = {50, 70},
       .heads = 3,
       .kv_heads = 3,
       .head_dim = 13},
  };
  return all;
}

TEST_P(AttentionTest, MatchesTheReference) {
  for (const AttentionCase& c : cases()) {
    for (AttentionBackend backend : backends()) {
      ctx_.kernels.attention = backend;
      const ArenaScope scope(ctx_.persistent);
      const AttentionInputs in = inputs(c, dtype());
      const AttentionGradArgs args = make(c, in, dtype());
      const AttentionBackend real = chosen(args.forward);
      if (real == AttentionBackend::flash && backend == AttentionBackend::math) continue;
      expect_result(run(args), AttentionReference(c, in, args.forward, scalars()).run(), c.longest() + c.head_dim, real,
                    fmt::format("{} ({})", c.name, name_of(real)));
    }
  }
}

// If the fast kernels refused shapes like these, training would be slow and no other test would notice. They must be
// computed by cuDNN or by our kernels for Hopper.
TEST_P(AttentionTest, CommonShapesAreTakenByTheFastest) {
  // cuDNN supports narrow types only, and ragged sequences from Hopper on.
  if (!on_gpu() || dtype() == DType::fp32 || ctx_.device.compute_capability < 90) {
    GTEST_SKIP() << "only on Hopper and later, in 16 bits";
  }
  if constexpr (kHasCuda) {
    for (const AttentionCase& c : cases()) {
      const bool common = (c.head_dim == 64 || c.head_dim == 128) && c.q_lens == c.kv_lens && !c.dropout;
      if (!common) continue;
      const ArenaScope scope(ctx_.persistent);
      const AttentionArgs args = make(c, inputs(c, dtype()), dtype()).forward;
      const AttentionChoice choice = choose_attention(ctx_, args);
      if (choice.reason.find("libcudnn") != std::string::npos) GTEST_SKIP() << choice.reason;
      // Where cuDNN is known to be wrong (cuda/sdpa_problem.h), the flash kernel is used, with a reason.
      if (!args.seq.dense && ctx_.device.compute_capability >= 120) {
        EXPECT_EQ(choice.backend, AttentionBackend::flash) << c.name;
        EXPECT_NE(choice.reason, "") << c.name;
        continue;
      }
      const bool half_a_tile_at_the_end = args.seq.dense && args.seq.max_len % 128 == 64 && args.mask.right != 0;
      if (half_a_tile_at_the_end && ctx_.device.compute_capability == 90) {
        EXPECT_TRUE(choice.backend == AttentionBackend::cudnn || !choice.reason.empty()) << c.name;
        continue;
      }
      const bool ours = c.head_dim == 64 && args.seq.dense && args.seq.max_len % 128 == 0 && args.mask.left < 0;
      const bool is_hopper = ctx_.device.compute_capability == 90;
      EXPECT_EQ(choice.backend, ours && is_hopper ? AttentionBackend::flash : AttentionBackend::cudnn)
          << c.name << ": " << choice.reason;
    }
  }
}

// Where the kernels allow it, v's gradient overwrites v.
TEST_P(AttentionTest, AGradientOverItsValuesHasTheSameBits) {
  const AttentionCase c{.name = "over v",
                        .q_lens = {256, 256},
                        .kv_lens = {256, 256},
                        .heads = 2,
                        .kv_heads = 1,
                        .head_dim = 64,
                        .mask = {-1, 0},
                        .padding = 0,
                        .dense = true};
  const AttentionGradArgs args = make(c, inputs(c, dtype()), dtype());
  const AttentionResult beside = run(args);
  if (attention_backward_overwrites(ctx_, args) == AttentionOverwrites::nothing)
    GTEST_SKIP() << "not with these kernels";
  AttentionGradArgs over = args;
  over.dv = args.forward.v;
  expect_same(run(over), beside, c.name);
}

TEST_P(AttentionTest, DeterministicBackwardRepeatsItsBits) {
  ctx_.kernels.deterministic = true;
  for (const AttentionCase& c : cases()) {
    for (AttentionBackend backend : backends()) {
      if (backend == AttentionBackend::math) continue;
      ctx_.kernels.attention = backend;
      const ArenaScope scope(ctx_.persistent);
      const AttentionGradArgs args = make(c, inputs(c, dtype()), dtype());
      AttentionResult first = run(args), second = run(args);
      // If cuDNN computes the forward, the contents of lse outside of rows are unspecified.
      if (chosen(args.forward) == AttentionBackend::cudnn) first.lse = second.lse;
      expect_same(second, first, c.name);
    }
  }
}

// The dry run plans exactly the workspace that the op then uses.
TEST_P(AttentionTest, ScratchIsAsPlanned) {
  for (const AttentionCase& c : cases()) {
    for (AttentionBackend backend : backends()) {
      ctx_.kernels.attention = backend;
      const ArenaScope scope(ctx_.persistent);
      const AttentionGradArgs args = make(c, inputs(c, dtype()), dtype());
      ExecContext paper;
      paper.dry = true;
      paper.device = ctx_.device;
      paper.cuda = ctx_.cuda;
      paper.kernels = ctx_.kernels;
      attention_forward(paper, args.forward);
      attention_backward(paper, args);
      const size_t before = ctx_.scratch.high_water();
      run(args);
      EXPECT_LE(ctx_.scratch.high_water(), std::max(before, paper.scratch.high_water())) << c.name;
      ExecContext absent;
      absent.dry = true;
      absent.device = ctx_.device;
      absent.kernels = ctx_.kernels;
      attention_forward(absent, args.forward);
      attention_backward(absent, args);
      EXPECT_GE(absent.scratch.high_water(), paper.scratch.high_water()) << c.name;
    }
  }
}

TEST_P(AttentionTest, BitsDoNotDependOnThreads) {
  ctx_.kernels.attention = AttentionBackend::flash;
  for (const AttentionCase& c : cases()) {
    const ArenaScope scope(ctx_.persistent);
    const AttentionGradArgs args = make(c, inputs(c, dtype()), dtype());
    AttentionResult one;
    for (int threads : {1, 2, 3, 7}) {
      use_threads(threads);
      const AttentionResult result = run(args);
      if (threads == 1) one = result;
      expect_same(result, one, c.name);
    }
  }
}

// A sequence must not depend on its neighbours or, through the coordinates of dropout, on the split of the batch.
TEST_P(AttentionTest, MicroBatchesHaveTheBitsOfTheWhole) {
  AttentionCase whole{.name = "split",
                      .q_lens = {70, 33, 0, 90},
                      .kv_lens = {70, 33, 0, 90},
                      .heads = 4,
                      .kv_heads = 2,
                      .head_dim = 32,
                      .dropout = true,
                      .padding = 0};
  const AttentionInputs in = inputs(whole, dtype());
  const AttentionResult expected = run(make(whole, in, dtype()));
  AttentionResult joined;
  std::vector<float> lse(expected.lse.size());
  const uint32_t first_token = scalars().token_base;
  for (int64_t part = 0, row = 0; part < 2; ++part) {
    AttentionCase half = whole;
    half.q_lens = half.kv_lens = part == 0 ? std::vector<int32_t>{70, 33} : std::vector<int32_t>{0, 90};
    half.max_len = whole.longest();
    const auto cut = [&](const std::vector<float>& values, int64_t cols) {
      return std::vector<float>(values.begin() + row * cols, values.begin() + (row + half.q_rows()) * cols);
    };
    const int64_t q_cols = half.heads * half.head_dim, kv_cols = half.kv_heads * half.head_dim;
    scalars().token_base = first_token + static_cast<uint32_t>(row);
    const AttentionResult result =
        run(make(half, {cut(in.q, q_cols), cut(in.dout, q_cols), cut(in.k, kv_cols), cut(in.v, kv_cols)}, dtype()));
    const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(joined.out, result.out), append(joined.dq, result.dq);
    append(joined.dk, result.dk), append(joined.dv, result.dv);
    for (int64_t head = 0; head < half.heads; ++head) {
      std::copy_n(result.lse.begin() + head * half.q_rows(), half.q_rows(), lse.begin() + head * whole.q_rows() + row);
    }
    row += half.q_rows();
  }
  joined.lse = lse;
  expect_same(joined, expected, "two micro-batches");
}

TEST_P(AttentionTest, NanReachesTheOutput) {
  const AttentionCase c{.name = "nan", .q_lens = {20}, .kv_lens = {20}, .head_dim = 16, .padding = 0, .dense = true};
  for (AttentionBackend backend : backends()) {
    ctx_.kernels.attention = backend;
    for (int which : {0, 1, 2}) {
      AttentionInputs in = inputs(c, dtype());
      std::vector<float>& input = which == 0 ? in.q : which == 1 ? in.k : in.v;
      const auto at = static_cast<size_t>(7 * c.head_dim);
      input[at] = std::numeric_limits<float>::quiet_NaN();
      const AttentionResult result = run(make(c, in, dtype()));
      EXPECT_TRUE(std::isnan(result.out[at])) << "input " << which << " (" << name_of(backend) << ")";
      EXPECT_TRUE(std::isnan(result.dq[at])) << "input " << which << " (" << name_of(backend) << ")";
    }
  }
}

// Scores of about -140: a sum that started with 0 as the largest score would vanish. The accuracy of the weights is
// limited to that of differences of such scores.
TEST_P(AttentionTest, ScoresFarBelowZero) {
  for (const int64_t head_dim : {32, 64}) {
    const AttentionCase c{
        .name = "far below 0", .q_lens = {70, 128}, .kv_lens = {70, 128}, .head_dim = head_dim, .padding = 0};
    AttentionInputs in = inputs(c, dtype());
    std::fill(in.q.begin(), in.q.end(), head_dim == 32 ? 5.0f : 4.0f);
    for (float& key : in.k) key = -5 + std::round(key * 8) / 32;
    for (AttentionBackend backend : backends()) {
      ctx_.kernels.attention = backend;
      const ArenaScope scope(ctx_.persistent);
      const AttentionGradArgs args = make(c, in, dtype());
      const AttentionResult actual = run(args), expected = AttentionReference(c, in, args.forward, scalars()).run();
      // Scores rounded to 8 bits say nothing about the weights.
      const bool is_rounded = chosen(args.forward) == AttentionBackend::math && dtype() != DType::fp32;
      for (size_t i = 0; i < actual.out.size(); ++i) {
        ASSERT_NEAR(actual.out[i], expected.out[i], is_rounded ? 1 : 0.02) << i << " (" << name_of(backend) << ")";
      }
      for (const float value : actual.dq) ASSERT_TRUE(std::isfinite(value)) << name_of(backend);
      for (const float value : actual.dk) ASSERT_TRUE(std::isfinite(value)) << name_of(backend);
    }
  }
}

class AttentionGradients : public AttentionTest {};
TEST_P(AttentionGradients, CentralDifferences) {
  use_threads(1);
  for (bool dropout : {false, true}) {
    const AttentionCase c{.name = "gradient",
                          .q_lens = {9, 17},
                          .kv_lens = {9, 20},
                          .heads = 2,
                          .kv_heads = 1,
                          .mask = {10, 1},
                          .dropout = dropout,
                          .padding = 0};
    const AttentionInputs in = inputs(c, DType::fp32);
    const AttentionGradArgs args = make(c, in, DType::fp32);
    const AttentionResult result = run(args);
    const GradientCheck check{
        .forward = [&] { attention_forward(ctx_, args.forward); }, .output = args.forward.out, .doutput = in.dout};
    expect_gradient(check, args.forward.q, result.dq, "q");
    expect_gradient(check, args.forward.k, result.dk, "k");
    expect_gradient(check, args.forward.v, result.dv, "v");
  }
}

TEST_P(AttentionGradients, CostCountsWhatTheMaskLeaves) {
  ExecContext dry;
  dry.dry = true;
  dry.device = host_cpu();
  const auto flops = [&](AttentionMask mask, int64_t queries) {
    Ledger ledger;
    dry.ledger = &ledger;
    const TensorView q(nullptr, DType::fp32, {12 * queries, 4 * 32}), kv(nullptr, DType::fp32, {12 * 64, 2 * 32});
    const TensorView cu(nullptr, DType::int32, {13});
    const TensorView lse(nullptr, DType::fp32, {4, 12 * queries});
    attention_forward(dry, {.q = q,
                            .k = kv,
                            .v = kv,
                            .out = q,
                            .lse = lse,
                            .seq = {.cu_q = cu, .cu_kv = cu, .max_seqs = 12, .max_len = 64},
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 32,
                            .mask = mask});
    return ledger.total().flops / (4.0 * 12 * 4 * 32);  // weights per head
  };
  EXPECT_EQ(flops({-1, -1}, 64), 64 * 64);
  EXPECT_EQ(flops({-1, 0}, 64), 64 * 64 / 2);
  EXPECT_EQ(flops({16, 0}, 64), 64 * 16 - 16 * 16 / 2);
  EXPECT_EQ(flops({16, 16}, 64), 2 * (64 * 16 - 16 * 16 / 2));
  EXPECT_EQ(flops({-1, 0}, 16), 16 * 48 + 16 * 16 / 2);
}

INSTANTIATE_TEST_SUITE_P(Ops, AttentionGradients, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, AttentionTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
