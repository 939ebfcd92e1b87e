// SPDX-License-Identifier: Apache-2.0
// Attention over short sequences. On a GPU there are enough heads for the kernels that give a block a whole head and,
// in the backward, several heads. A CPU and fp32 use the usual kernels.
#include "ops/attention/attention_fixture.h"

namespace gradmill::test {
namespace {

// `longest` for the first sequence and for every sequence with which a block (of 132) begins its next head; short ones
// between.
std::vector<int32_t> mixed_lens(int32_t count, int32_t every, const std::vector<int32_t>& longest) {
  std::vector<int32_t> lens;
  for (int32_t i = 0; i < count; ++i) {
    const auto round = static_cast<size_t>(i / every);
    lens.push_back(i % every == 0 && round < longest.size() ? longest[round] : i * 5 % 9);
  }
  return lens;
}

const std::vector<AttentionCase>& cases() {
  static const std::vector<AttentionCase> all = {
      {.name = "dropout, three heads a block",
       .q_lens = mixed_lens(48, 22, {256, 256, 200}),
       .kv_lens = mixed_lens(48, 22, {256, 256, 200}),
       .heads = 6,
       .kv_heads = 6,
       .head_dim = 64,
       .dropout = true},
      {.name = "no dropout, three heads a block, narrow heads",
       .q_lens = mixed_lens(48, 22, {65, 241, 129}),
       .kv_lens = mixed_lens(48, 22, {65, 241, 129}),
       .heads = 6,
       .kv_heads = 6,
       .head_dim = 40},
      {.name = "dropout, three groups a block",
       .q_lens = mixed_lens(70, 33, {130, 64, 97}),
       .kv_lens = mixed_lens(70, 33, {130, 64, 97}),
       .heads = 8,
       .kv_heads = 4,
       .head_dim = 64,
       .dropout = true},
      {.name = "dropout, band, keys from a cache",
       .q_lens = mixed_lens(48, 22, {140, 33, 70}),
       .kv_lens = mixed_lens(48, 22, {250, 256, 20}),
       .heads = 6,
       .kv_heads = 6,
       .head_dim = 64,
       .mask = {60, 9},
       .max_len = 256,
       .dropout = true},
      {.name = "bidirectional, dropout, dense",
       .q_lens = std::vector<int32_t>(23, 48),
       .kv_lens = std::vector<int32_t>(23, 48),
       .heads = 6,
       .kv_heads = 6,
       .head_dim = 64,
       .mask = {-1, -1},
       .dropout = true,
       .padding = 0,
       .dense = true},
      {.name = "dropout, one head a block, around whole tiles",
       .q_lens = {1, 63, 64, 65, 128, 200, 255, 256},
       .kv_lens = {1, 63, 64, 65, 128, 200, 255, 256},
       .heads = 3,
       .kv_heads = 3,
       .head_dim = 64,
       .dropout = true},
      {.name = "bidirectional, no dropout, around whole tiles",
       .q_lens = {256, 1, 65, 193, 64},
       .kv_lens = {256, 1, 65, 193, 64},
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 64,
       .mask = {-1, -1}},
      {.name = "bidirectional, dropout, other numbers of keys",
       .q_lens = {256, 100, 17, 64},
       .kv_lens = {250, 256, 256, 3},
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 48,
       .mask = {-1, -1},
       .max_len = 256,
       .dropout = true},
      {.name = "window, dropout",
       .q_lens = {256, 200, 77},
       .kv_lens = {256, 200, 77},
       .heads = 4,
       .kv_heads = 4,
       .head_dim = 64,
       .mask = {40, 0},
       .dropout = true},
      {.name = "window to either side, no dropout",
       .q_lens = {256, 130},
       .kv_lens = {256, 130},
       .heads = 4,
       .kv_heads = 4,
       .head_dim = 64,
       .mask = {5, 3}},
      {.name = "no dropout, three groups a block, long",
       .q_lens = mixed_lens(70, 33, {256, 200, 65}),
       .kv_lens = mixed_lens(70, 33, {256, 200, 65}),
       .heads = 8,
       .kv_heads = 4,
       .head_dim = 64},
      {.name = "bidirectional, dropout, three groups a block, other numbers of keys",
       .q_lens = mixed_lens(70, 33, {256, 191, 3}),
       .kv_lens = mixed_lens(70, 33, {193, 256, 130}),
       .heads = 12,
       .kv_heads = 4,
       .head_dim = 64,
       .mask = {-1, -1},
       .max_len = 256,
       .dropout = true},
      {.name = "queries or keys missing",
       .q_lens = mixed_lens(48, 7, {0, 20, 0, 100}),
       .kv_lens = mixed_lens(48, 7, {90, 0, 0, 256}),
       .heads = 6,
       .kv_heads = 6,
       .head_dim = 56,
       .dropout = true},
  };
  return all;
}

class ShortAttentionTest : public AttentionTest {
 protected:
  ShortAttentionTest() { ctx_.kernels.attention = on_gpu() ? AttentionBackend::flash : AttentionBackend::automatic; }
};

TEST_P(ShortAttentionTest, MatchesTheReference) {
  for (const AttentionCase& c : cases()) {
    const ArenaScope scope(ctx_.persistent);
    const AttentionInputs in = inputs(c, dtype());
    const AttentionGradArgs args = make(c, in, dtype());
    expect_result(run(args), AttentionReference(c, in, args.forward, scalars()).run(), c.longest() + c.head_dim,
                  AttentionBackend::flash, c.name);
  }
}

// Where the op reports that this is allowed.
TEST_P(ShortAttentionTest, GradientsOverTheirInputs) {
  for (const AttentionCase& c : cases()) {
    const ArenaScope scope(ctx_.persistent);
    const AttentionGradArgs args = make(c, inputs(c, dtype()), dtype());
    if (attention_backward_overwrites(ctx_, args) != AttentionOverwrites::everything) continue;
    const AttentionResult beside = run(args);
    AttentionGradArgs over = args;
    over.dq = args.forward.q, over.dk = args.forward.k, over.dv = args.forward.v;
    expect_same(run(over), beside, c.name);
  }
}

// Nothing may depend on the order in which blocks run, nor on a probability that the kernels read from the device.
TEST_P(ShortAttentionTest, RepeatsItsBits) {
  for (float probability : {0.0f, 0.2f, 0.7f}) {
    scalars().dropout = probability;
    const AttentionCase& c = cases().front();
    const ArenaScope scope(ctx_.persistent);
    const AttentionInputs in = inputs(c, dtype());
    const AttentionGradArgs args = make(c, in, dtype());
    const AttentionResult first = run(args);
    expect_same(run(args), first, c.name);
    expect_result(first, AttentionReference(c, in, args.forward, scalars()).run(), c.longest() + c.head_dim,
                  AttentionBackend::flash, c.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ShortAttentionTest, testing::ValuesIn(cases_without(DType::fp32)), case_name);

}  // namespace
}  // namespace gradmill::test
