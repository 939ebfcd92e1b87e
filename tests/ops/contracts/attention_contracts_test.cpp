// SPDX-License-Identifier: Apache-2.0
#include "op_contracts.h"
#include "ops/attention/attention.h"
#include "ops/disentangled/disentangled_attention.h"

namespace gradmill::test {
namespace {

// Two sequences of at most five positions in eight rows.
AttentionArgs attention(int64_t kv_heads) {
  return {.q = fp32({8, 4 * 16}),
          .k = fp32({8, kv_heads * 16}),
          .v = fp32({8, kv_heads * 16}),
          .out = fp32({8, 4 * 16}),
          .lse = fp32({4, 8}),
          .seq = {.positions = int32({8}), .cu_q = int32({3}), .cu_kv = int32({3}), .max_seqs = 2, .max_len = 5},
          .heads = 4,
          .kv_heads = kv_heads,
          .head_dim = 16};
}

DisentangledAttentionArgs disentangled() {
  return {.content = attention(4), .pos_k = fp32({6, 64}), .pos_q = fp32({6, 64}), .buckets = int32({9})};
}

TEST_F(OpContracts, AttentionForward) {
  expect_refused(
      attention_forward, attention(2),
      {{[](auto& args) { args.kv_heads = 3; }, "args.heads % args.kv_heads == 0"},
       {[](auto& args) {
          args.k = fp32({8, 64});
        },
        "args.k.cols() == args.kv_heads * args.head_dim"},
       {[](auto& args) {
          args.v = bf16({8, 32});
        },
        "args.v.dtype == args.q.dtype"},
       {[](auto& args) {
          args.lse = fp32({8, 4});
        },
        "args.lse.shape == Shape({args.heads, args.q.rows()})"},
       {[](auto& args) { args.seq.cu_kv = int32({2}); }, "args.seq.cu_kv.numel() == args.seq.max_seqs + 1"}});
}

TEST_F(OpContracts, AttentionBackward) {
  const AttentionGradArgs right{
      .forward = attention(2), .dout = fp32({8, 64}), .dq = fp32({8, 64}), .dk = fp32({8, 32}), .dv = fp32({8, 32})};
  expect_refused(attention_backward, right,
                 {{[](auto& args) { args.forward.head_dim = 0; }, "args.head_dim > 0"},
                  {[](auto& args) {
                     args.dk = fp32({8, 64});
                   },
                   "args.dk.shape == forward.k.shape"},
                  {[](auto& args) {
                     args.dout = bf16({8, 64});
                   },
                   "args.dout.dtype == forward.q.dtype"}});
}

TEST_F(OpContracts, DisentangledAttentionForward) {
  expect_refused(
      disentangled_attention_forward, disentangled(),
      {{[](auto& args) { args.content.kv_heads = 2; }, "content.heads == content.kv_heads"},
       {[](auto& args) { args.content.mask.right = 0; }, "content.mask.right < 0"},
       {[](auto& args) { args.pos_k = args.pos_q = {}; }, "args.pos_k.defined() || args.pos_q.defined()"},
       {[](auto& args) {
          args.pos_q = fp32({5, 64});
        },
        "table.rows() == num_buckets(args)"},
       {[](auto& args) { args.buckets = int32({7}); }, "args.buckets.numel() >= 2 * content.seq.max_len - 1"}});
}

TEST_F(OpContracts, DisentangledAttentionBackward) {
  const DisentangledAttentionGradArgs right{.forward = disentangled(),
                                            .dout = fp32({8, 64}),
                                            .dq = fp32({8, 64}),
                                            .dk = fp32({8, 64}),
                                            .dv = fp32({8, 64}),
                                            .dpos_k = fp32({6, 64}),
                                            .dpos_q = fp32({6, 64})};
  expect_refused(disentangled_attention_backward, right,
                 {{[](auto& args) {
                     args.dv = fp32({7, 64});
                   },
                   "args.dv.shape == content.q.shape"},
                  {[](auto& args) {
                     args.dq = bf16({8, 64});
                   },
                   "args.dq.dtype == content.q.dtype"},
                  {[](auto& args) { args.dpos_q = {}; }, "args.dpos_q.shape == forward.pos_q.shape"}});
}

}  // namespace
}  // namespace gradmill::test
