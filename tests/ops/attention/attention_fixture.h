// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of attention: builds the op's arguments for a case, runs it, and compares with the reference.
#pragma once

#include <cmath>
#include <limits>

#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_reference.h"
#include "support/op_test.h"

namespace gradmill::test {

inline const char* name_of(AttentionBackend backend) {
  switch (backend) {
    case AttentionBackend::automatic:
      return "automatic";
    case AttentionBackend::cudnn:
      return "cudnn";
    case AttentionBackend::flash:
      return "flash";
    case AttentionBackend::math:
      return "math";
  }
  return "?";
}

inline std::vector<int32_t> offsets(const std::vector<int32_t>& lens) {
  std::vector<int32_t> sums = {0};
  for (int32_t len : lens) sums.push_back(sums.back() + len);
  return sums;
}

class AttentionTest : public OpTest {
 protected:
  explicit AttentionTest(size_t arena_bytes = size_t{8} << 20) : OpTest(arena_bytes) {
    scalars().seed = 0x123456789abcdefull;
    scalars().step = 17;
    scalars().token_base = 1000;
    scalars().dropout = 0.3f;
  }

  static AttentionInputs inputs(const AttentionCase& c, DType rounded_to) {
    const int64_t q = c.q_rows() * c.heads * c.head_dim, kv = c.kv_rows() * c.kv_heads * c.head_dim;
    return {random_values(q, 1, 2, rounded_to), random_values(q, 2, 1, rounded_to), random_values(kv, 3, 2, rounded_to),
            random_values(kv, 4, 1, rounded_to)};
  }

  // The backends to test. A CPU has only one.
  std::vector<AttentionBackend> backends() const {
    if (!on_gpu()) return {AttentionBackend::automatic};
    return {AttentionBackend::flash, AttentionBackend::cudnn, AttentionBackend::math, AttentionBackend::automatic};
  }

  // The backend that actually computes the case, if there is a choice.
  AttentionBackend chosen(const AttentionArgs& args) {
    AttentionBackend backend = AttentionBackend::flash;
    if constexpr (kHasCuda) {
      if (on_gpu()) backend = choose_attention(ctx_, args).backend;
    }
    return backend;
  }

  // q, k and v are columns of one packed buffer, the gradients of another. Padding rows are NaN, except when cuDNN is
  // tested: its tiles extend past the end of a ragged sequence and multiply what is stored there by 0.
  AttentionGradArgs make(const AttentionCase& c, const AttentionInputs& in, DType type) {
    const int64_t q_cols = c.heads * c.head_dim, kv_cols = c.kv_heads * c.head_dim, cols = q_cols + 2 * kv_cols;
    const int64_t rows = std::max(c.q_rows(), c.kv_rows());
    const bool finite = !c.dense && (ctx_.kernels.attention == AttentionBackend::cudnn ||
                                     ctx_.kernels.attention == AttentionBackend::automatic);
    std::vector<float> packed(static_cast<size_t>(rows * cols),
                              finite ? 100.0f : std::numeric_limits<float>::quiet_NaN());
    const auto pack = [&](const std::vector<float>& values, int64_t used, int64_t width, int64_t at) {
      for (int64_t r = 0; r < used; ++r) {
        std::copy_n(values.begin() + r * width, width, packed.begin() + r * cols + at);
      }
    };
    pack(in.q, AttentionCase::total(c.q_lens), q_cols, 0);
    pack(in.k, AttentionCase::total(c.kv_lens), kv_cols, q_cols);
    pack(in.v, AttentionCase::total(c.kv_lens), kv_cols, q_cols + kv_cols);
    const TensorView qkv = upload(packed, {rows, cols}, type), dqkv = tensor({rows, cols}, type);
    const auto part = [&](const TensorView& whole, int64_t used, int64_t begin, int64_t width) {
      return whole.slice_rows(0, used).slice_cols(begin, begin + width);
    };
    AttentionGradArgs args;
    args.forward = {.q = part(qkv, c.q_rows(), 0, q_cols),
                    .k = part(qkv, c.kv_rows(), q_cols, kv_cols),
                    .v = part(qkv, c.kv_rows(), q_cols + kv_cols, kv_cols),
                    .out = tensor({c.q_rows(), q_cols}, type),
                    .lse = tensor({c.heads, c.q_rows()}, DType::fp32),
                    .seq = {.cu_q = upload(offsets(c.q_lens)),
                            .max_seqs = static_cast<int64_t>(c.q_lens.size()),
                            .max_len = c.longest(),
                            .dense = c.dense},
                    .heads = c.heads,
                    .kv_heads = c.kv_heads,
                    .head_dim = c.head_dim,
                    .scale = 1 / std::sqrt(static_cast<float>(c.head_dim)),
                    .mask = c.mask,
                    .dropout = c.dropout,
                    .dropout_site = 67};
    SeqLayout& seq = args.forward.seq;
    seq.cu_kv = c.kv_lens == c.q_lens ? seq.cu_q : upload(offsets(c.kv_lens));
    args.dout = upload(in.dout, {c.q_rows(), q_cols}, type);
    args.dq = part(dqkv, c.q_rows(), 0, q_cols);
    args.dk = part(dqkv, c.kv_rows(), q_cols, kv_cols);
    args.dv = part(dqkv, c.kv_rows(), q_cols + kv_cols, kv_cols);
    return args;
  }

  AttentionResult run(const AttentionGradArgs& args) {
    attention_forward(ctx_, args.forward);
    attention_backward(ctx_, args);
    return {download(args.forward.out), download(args.forward.lse), download(args.dq), download(args.dk),
            download(args.dv)};
  }

  // Sums are fp32 for every dtype. A narrow result is off by its own rounding and, in dq and dk, by that of `out`. A
  // GPU also rounds the weights before it multiplies with them; the naive baseline even stores the scores in the dtype.
  double tolerance(AttentionBackend backend) const {
    if (!on_gpu()) return 2;
    return backend == AttentionBackend::math && dtype() != DType::fp32 ? 16 : 4;
  }
  void expect_result(const AttentionResult& actual, const AttentionResult& expected, int64_t terms,
                     AttentionBackend backend, const std::string& what) {
    const int64_t rounded = dtype() == DType::fp32 ? terms : 1;
    const double c = tolerance(backend);
    expect_reduction(actual.out, expected.out, dtype(), rounded, c, what + ": out");
    // cuDNN stores lse in its own way, and rounded scores give a different lse.
    if (backend == AttentionBackend::flash || (backend == AttentionBackend::math && dtype() == DType::fp32)) {
      expect_reduction(actual.lse, expected.lse, DType::fp32, terms, on_gpu() ? 4 : 2, what + ": lse");
    }
    expect_reduction(actual.dq, expected.dq, dtype(), rounded, c, what + ": dq");
    expect_reduction(actual.dk, expected.dk, dtype(), rounded, c, what + ": dk");
    expect_reduction(actual.dv, expected.dv, dtype(), rounded, c, what + ": dv");
  }
  static void expect_same(const AttentionResult& actual, const AttentionResult& expected, const std::string& name) {
    expect_same_bits(actual.out, expected.out, name + ": out");
    expect_same_bits(actual.lse, expected.lse, name + ": lse");
    expect_same_bits(actual.dq, expected.dq, name + ": dq");
    expect_same_bits(actual.dk, expected.dk, name + ": dk");
    expect_same_bits(actual.dv, expected.dv, name + ": dv");
  }
};

}  // namespace gradmill::test
