// SPDX-License-Identifier: Apache-2.0
#include "ops/disentangled/disentangled_attention.h"

#include <limits>
#include <numeric>

#include "ops/disentangled/disentangled_reference.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

const std::vector<DisentangledCase>& cases() {
  static const std::vector<DisentangledCase> all = {
      {.name = "one short sequence", .lens = {3}, .padding = 0},
      {.name = "heads of 64, several tiles, with empty sequences",
       .lens = {70, 0, 1, 130, 9, 0},
       .heads = 2,
       .head_dim = 64,
       .buckets = {16, 64, true},
       .padding = 13},
      {.name = "whole tiles, longer than the buckets reach",
       .lens = {64, 128},
       .heads = 2,
       .head_dim = 64,
       .buckets = {8, 20, true}},
      {.name = "every distance its own bucket",
       .lens = {150, 33},
       .heads = 2,
       .head_dim = 32,
       .buckets = {256, 512, true},
       .max_len = 200,
       .table_len = 512},
      {.name = "distances cut off", .lens = {100, 40}, .heads = 1, .head_dim = 16, .buckets = {30, 0, false}},
      {.name = "buckets that skip rows", .lens = {90}, .heads = 1, .head_dim = 24, .buckets = {32, 24, true}},
      {.name = "content to position",
       .lens = {65, 20},
       .heads = 2,
       .head_dim = 64,
       .buckets = {16, 100, true},
       .position_to_content = false},
      {.name = "position to content",
       .lens = {65, 20},
       .heads = 2,
       .head_dim = 64,
       .buckets = {16, 100, true},
       .content_to_position = false},
      {.name = "dropout",
       .lens = {70, 11, 129},
       .heads = 3,
       .head_dim = 64,
       .buckets = {32, 128, true},
       .max_len = 131,
       .dropout = true},
      {.name = "dropout, narrow heads",
       .lens = {90, 64},
       .heads = 2,
       .head_dim = 40,
       .buckets = {16, 64, true},
       .dropout = true},
      {.name = "wide heads", .lens = {70, 30}, .heads = 2, .head_dim = 128, .buckets = {16, 64, true}},
      {.name = "wide heads, dropout", .lens = {70}, .heads = 1, .head_dim = 96, .dropout = true},
      {.name = "heads of an odd width", .lens = {50, 70}, .heads = 3, .head_dim = 13},
      {.name = "widest heads", .lens = {66}, .heads = 1, .head_dim = 256},
      {.name = "dense, many sequences",
       .lens = std::vector<int32_t>(24, 68),
       .heads = 1,
       .head_dim = 64,
       .buckets = {16, 64, true},
       .dropout = true,
       .padding = 0,
       .dense = true},
      {.name = "long", .lens = {515, 300}, .heads = 1, .head_dim = 64, .buckets = {256, 512, true}, .dropout = true},
  };
  return all;
}

class DisentangledAttentionTest : public OpTest {
 protected:
  DisentangledAttentionTest() {
    scalars().seed = 0x123456789abcdefull;
    scalars().step = 17;
    scalars().token_base = 1000;
    scalars().dropout = 0.3f;
  }

  static DisentangledInputs inputs(const DisentangledCase& c, DType rounded_to) {
    const int64_t size = c.rows() * c.cols(), table = 2 * c.buckets.size * c.cols();
    const auto values = [&](int64_t count, uint32_t seed, float scale) {
      return random_values(count, seed, scale, rounded_to);
    };
    return {values(size, 1, 2), values(size, 2, 2),  values(size, 3, 1),
            values(size, 4, 1), values(table, 5, 2), values(table, 6, 2)};
  }

  // q, k and v are columns of one packed buffer, the projected tables of another; the same holds for the gradients.
  // Padding rows are NaN.
  DisentangledAttentionGradArgs make(const DisentangledCase& c, const DisentangledInputs& in, DType type) {
    const int64_t cols = c.cols(), rows = c.rows(), table_rows = 2 * c.buckets.size;
    std::vector<float> packed(static_cast<size_t>(rows * 3 * cols), std::numeric_limits<float>::quiet_NaN());
    std::vector<float> tables(static_cast<size_t>(table_rows * 3 * cols), std::numeric_limits<float>::quiet_NaN());
    const auto pack = [&](const std::vector<float>& values, int64_t used, int64_t part, std::vector<float>& to) {
      for (int64_t r = 0; r < used; ++r) {
        std::copy_n(values.begin() + r * cols, cols, to.begin() + (3 * r + part) * cols);
      }
    };
    pack(in.q, rows - c.padding, 0, packed);
    pack(in.k, rows - c.padding, 1, packed);
    pack(in.v, rows - c.padding, 2, packed);
    pack(in.pos_q, table_rows, 0, tables);
    pack(in.pos_k, table_rows, 1, tables);
    const TensorView qkv = upload(packed, {rows, 3 * cols}, type), dqkv = tensor({rows, 3 * cols}, type);
    const TensorView positions = upload(tables, {table_rows, 3 * cols}, type);
    const TensorView dpositions = tensor({table_rows, 3 * cols}, type);
    const auto part = [&](const TensorView& whole, int64_t index) {
      return whole.slice_cols(index * cols, (index + 1) * cols);
    };
    std::vector<int32_t> offsets = {0};
    for (int32_t len : c.lens) offsets.push_back(offsets.back() + len);
    DisentangledAttentionGradArgs args;
    AttentionArgs& content = args.forward.content;
    content = {.q = part(qkv, 0),
               .k = part(qkv, 1),
               .v = part(qkv, 2),
               .out = tensor({rows, cols}, type),
               .lse = tensor({c.heads, rows}, DType::fp32),
               .seq = {.cu_q = upload(offsets),
                       .max_seqs = static_cast<int64_t>(c.lens.size()),
                       .max_len = c.longest(),
                       .dense = c.dense},
               .heads = c.heads,
               .kv_heads = c.heads,
               .head_dim = c.head_dim,
               .scale = 1 / std::sqrt(static_cast<float>(c.head_dim * c.num_terms())),
               .dropout = c.dropout,
               .dropout_site = 67};
    content.seq.cu_kv = content.seq.cu_q;
    args.forward.buckets = upload(bucket_table(c.buckets, std::max(c.table_len, c.longest())));
    if (c.content_to_position) args.forward.pos_k = part(positions, 1), args.dpos_k = part(dpositions, 1);
    if (c.position_to_content) args.forward.pos_q = part(positions, 0), args.dpos_q = part(dpositions, 0);
    args.dout = upload(in.dout, {rows, cols}, type);
    args.dq = part(dqkv, 0), args.dk = part(dqkv, 1), args.dv = part(dqkv, 2);
    return args;
  }

  DisentangledResult run(const DisentangledAttentionGradArgs& args) {
    disentangled_attention_forward(ctx_, args.forward);
    disentangled_attention_backward(ctx_, args);
    const auto table = [](const TensorView& view) { return view.defined() ? download(view) : std::vector<float>(); };
    return {download(args.forward.content.out),
            download(args.forward.content.lse),
            download(args.dq),
            download(args.dk),
            download(args.dv),
            table(args.dpos_k),
            table(args.dpos_q)};
  }

  // Sums are fp32 for every dtype. A narrow result is off by its own rounding and, in gradients, by that of `out`. A
  // GPU also rounds weights and gradients of scores before it multiplies with them.
  void expect_result(const DisentangledCase& c, const DisentangledResult& actual, const DisentangledResult& expected) {
    const int64_t terms = dtype() == DType::fp32 ? c.longest() + 3 * c.head_dim : 1;
    const double tolerance = on_gpu() ? 4 : 2;
    const auto expect = [&](const std::vector<float>& a, const std::vector<float>& b, const char* what) {
      expect_reduction(a, b, dtype(), terms, tolerance, fmt::format("{}: {}", c.name, what));
    };
    expect(actual.out, expected.out, "out");
    expect_reduction(actual.lse, expected.lse, DType::fp32, c.longest() + 3 * c.head_dim, tolerance,
                     fmt::format("{}: lse", c.name));
    expect(actual.dq, expected.dq, "dq");
    expect(actual.dk, expected.dk, "dk");
    expect(actual.dv, expected.dv, "dv");
    if (c.content_to_position) expect(actual.dpos_k, expected.dpos_k, "dpos_k");
    if (c.position_to_content) expect(actual.dpos_q, expected.dpos_q, "dpos_q");
  }
  static void expect_same(const DisentangledResult& actual, const DisentangledResult& expected, const char* name) {
    const auto expect = [&](const std::vector<float>& a, const std::vector<float>& b, const char* what) {
      expect_same_bits(a, b, fmt::format("{}: {}", name, what));
    };
    expect(actual.out, expected.out, "out");
    expect(actual.lse, expected.lse, "lse");
    expect(actual.dq, expected.dq, "dq");
    expect(actual.dk, expected.dk, "dk");
    expect(actual.dv, expected.dv, "dv");
    expect(actual.dpos_k, expected.dpos_k, "dpos_k");
    expect(actual.dpos_q, expected.dpos_q, "dpos_q");
  }
};

TEST_P(DisentangledAttentionTest, MatchesTheReference) {
  for (const DisentangledCase& c : cases()) {
    const ArenaScope scope(ctx_.persistent);
    const DisentangledInputs in = inputs(c, dtype());
    const DisentangledAttentionGradArgs args = make(c, in, dtype());
    expect_result(c, run(args), DisentangledReference(c, in, args.forward.content, scalars()).run());
  }
}

TEST_P(DisentangledAttentionTest, RepeatsItsBitsWithAnyNumberOfThreads) {
  for (const DisentangledCase& c : cases()) {
    const ArenaScope scope(ctx_.persistent);
    const DisentangledAttentionGradArgs args = make(c, inputs(c, dtype()), dtype());
    use_threads(1);
    const DisentangledResult one = run(args);
    for (int threads : {2, 3, 7}) {
      use_threads(threads);
      expect_same(run(args), one, c.name);
    }
  }
}

// A sequence must not depend on its neighbours or, through the coordinates of dropout, on the split of the batch.
TEST_P(DisentangledAttentionTest, MicroBatchesHaveTheBitsOfTheWhole) {
  const DisentangledCase whole{.name = "split",
                               .lens = {70, 33, 0, 90},
                               .heads = 2,
                               .head_dim = 64,
                               .buckets = {16, 64, true},
                               .max_len = 90,
                               .dropout = true,
                               .padding = 0};
  const DisentangledInputs in = inputs(whole, dtype());
  const DisentangledResult expected = run(make(whole, in, dtype()));
  const uint32_t first_token = scalars().token_base;
  DisentangledResult joined;
  int64_t row = 0;
  for (size_t part = 0; part < 2; ++part) {
    DisentangledCase half = whole;
    half.lens = {whole.lens[2 * part], whole.lens[2 * part + 1]};
    const auto cut = [&](const std::vector<float>& values) {
      const auto begin = values.begin() + row * whole.cols();
      return std::vector<float>(begin, begin + half.rows() * whole.cols());
    };
    const DisentangledInputs mine{cut(in.q), cut(in.k), cut(in.v), cut(in.dout), in.pos_k, in.pos_q};
    scalars().token_base = first_token + static_cast<uint32_t>(row);
    const DisentangledResult result = run(make(half, mine, dtype()));
    const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(joined.out, result.out);
    append(joined.dq, result.dq);
    append(joined.dk, result.dk);
    append(joined.dv, result.dv);
    row += half.rows();
  }
  expect_same_bits(joined.out, expected.out, "out");
  expect_same_bits(joined.dq, expected.dq, "dq");
  expect_same_bits(joined.dk, expected.dk, "dk");
  expect_same_bits(joined.dv, expected.dv, "dv");
}

// The dry run plans exactly the workspace that the op then uses.
TEST_P(DisentangledAttentionTest, ScratchIsAsPlanned) {
  for (const DisentangledCase& c : cases()) {
    const ArenaScope scope(ctx_.persistent);
    const DisentangledAttentionGradArgs args = make(c, inputs(c, dtype()), dtype());
    ExecContext paper;
    paper.dry = true;
    paper.device = ctx_.device;
    disentangled_attention_forward(paper, args.forward);
    disentangled_attention_backward(paper, args);
    const size_t before = ctx_.scratch.high_water();
    run(args);
    EXPECT_LE(ctx_.scratch.high_water(), std::max(before, paper.scratch.high_water())) << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, DisentangledAttentionTest, testing::ValuesIn(all_cases()), case_name);

class DisentangledGradientTest : public DisentangledAttentionTest {};

TEST_P(DisentangledGradientTest, MatchesDifferences) {
  const DisentangledCase c{.name = "differences",
                           .lens = {9, 5},
                           .heads = 2,
                           .head_dim = 8,
                           .buckets = {4, 12, true},
                           .dropout = true,
                           .padding = 0};
  const DisentangledInputs in = inputs(c, DType::fp32);
  const DisentangledAttentionGradArgs args = make(c, in, DType::fp32);
  const DisentangledResult result = run(args);
  const GradientCheck check{[&] { disentangled_attention_forward(ctx_, args.forward); }, args.forward.content.out,
                            in.dout};
  expect_gradient(check, args.forward.content.q, result.dq, "dq");
  expect_gradient(check, args.forward.content.k, result.dk, "dk");
  expect_gradient(check, args.forward.content.v, result.dv, "dv");
  expect_gradient(check, args.forward.pos_k, result.dpos_k, "dpos_k");
  expect_gradient(check, args.forward.pos_q, result.dpos_q, "dpos_q");
}

INSTANTIATE_TEST_SUITE_P(Ops, DisentangledGradientTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
