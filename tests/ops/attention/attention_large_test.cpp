// SPDX-License-Identifier: Apache-2.0
// Attention with more tiles than a GPU has multiprocessors: persistent blocks process one tile after the other.
#include "ops/attention/attention_fixture.h"

namespace gradmill::test {
namespace {

class LargeAttentionTest : public AttentionTest {
 protected:
  LargeAttentionTest() : AttentionTest(size_t{96} << 20) {}

  static AttentionCase many_tiles(int seqs, int len, int64_t heads, int64_t kv_heads, AttentionMask mask) {
    const std::vector<int32_t> lens(static_cast<size_t>(seqs), len);
    return {.name = "many tiles",
            .q_lens = lens,
            .kv_lens = lens,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_dim = 64,
            .mask = mask,
            .padding = 0,
            .dense = true};
  }
};

// Compared with the naive implementation, whose scores are rounded: the exact reference would take a minute.
TEST_P(LargeAttentionTest, BlocksTakeManyTiles) {
  struct Size {
    int seqs, len;
    int64_t heads, kv_heads;
  };
  // A block has up to 192 queries; here one, three or two times 64 remain. In the last case many heads share keys.
  for (const auto& [seqs, len, heads, kv_heads] :
       {Size{12, 256, 14, 7}, Size{6, 384, 14, 7}, Size{5, 512, 14, 7}, Size{4, 384, 16, 2}}) {
    for (const AttentionMask mask : {AttentionMask{-1, 0}, AttentionMask{-1, -1}}) {
      const AttentionCase c = many_tiles(seqs, len, heads, kv_heads, mask);
      const ArenaScope scope(ctx_.persistent);
      const AttentionGradArgs args = make(c, inputs(c, dtype()), dtype());
      ctx_.kernels.attention = AttentionBackend::math;
      const AttentionResult expected = run(args);
      ctx_.kernels.attention = AttentionBackend::automatic;
      const AttentionResult beside = run(args);
      expect_result(beside, expected, c.longest() + c.head_dim, AttentionBackend::math, c.name);
      if (attention_backward_overwrites(ctx_, args) == AttentionOverwrites::nothing) continue;
      AttentionGradArgs over = args;
      over.dv = args.forward.v;
      expect_same(run(over), beside, c.name);
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LargeAttentionTest);
INSTANTIATE_TEST_SUITE_P(Ops, LargeAttentionTest, testing::ValuesIn(narrow_gpu_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
