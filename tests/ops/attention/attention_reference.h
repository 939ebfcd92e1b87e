// SPDX-License-Identifier: Apache-2.0
// A naive implementation of attention in double precision, forward and backward.
#pragma once

#include <cmath>
#include <vector>

#include "core/rng.h"
#include "ops/attention/attention.h"

namespace gradmill::test {

// H query heads and Hkv key heads of size D. Sequence s has q_lens[s] queries and kv_lens[s] keys.
struct AttentionCase {
  const char* name = "";
  std::vector<int32_t> q_lens, kv_lens;
  int64_t heads = 1, kv_heads = 1, head_dim = 8;
  AttentionMask mask{-1, 0};
  int64_t max_len = 0;  // 0: the longest sequence
  bool dropout = false;
  int64_t padding = 5;  // rows after the last sequence
  bool dense = false;   // all sequences have max_len rows, and SeqLayout::dense is set

  static int64_t total(const std::vector<int32_t>& lens) {
    int64_t sum = 0;
    for (int32_t len : lens) sum += len;
    return sum;
  }
  int64_t q_rows() const { return total(q_lens) + padding; }
  int64_t kv_rows() const { return total(kv_lens) + padding; }
  int64_t longest() const {
    if (max_len > 0) return max_len;
    int64_t longest = 1;
    for (const auto* lens : {&q_lens, &kv_lens}) {
      for (int64_t len : *lens) longest = std::max(longest, len);
    }
    return longest;
  }
};

struct AttentionInputs {
  std::vector<float> q, dout;  // (N, H * D)
  std::vector<float> k, v;     // (M, Hkv * D)
};

struct AttentionResult {
  std::vector<float> out, lse, dq, dk, dv;
};

class AttentionReference {
 public:
  AttentionReference(const AttentionCase& c, const AttentionInputs& in, const AttentionArgs& args,
                     const StepScalars& scalars)
      : c_(c), in_(in), args_(args), scalars_(scalars) {
    const auto rows = static_cast<size_t>(c.q_rows()), q_size = in.q.size(), kv_size = in.k.size();
    out_.resize(q_size), dq_.resize(q_size), lse_.resize(rows * static_cast<size_t>(c.heads));
    dk_.resize(kv_size), dv_.resize(kv_size);
  }

  AttentionResult run() {
    int64_t q_begin = 0, kv_begin = 0;
    for (size_t s = 0; s < c_.q_lens.size(); ++s) {
      for (int64_t head = 0; head < c_.heads; ++head) {
        for (int64_t i = 0; i < c_.q_lens[s]; ++i) {
          query(head, q_begin + i, i + c_.kv_lens[s] - c_.q_lens[s], kv_begin, c_.kv_lens[s]);
        }
      }
      q_begin += c_.q_lens[s];
      kv_begin += c_.kv_lens[s];
    }
    const auto narrow = [](const std::vector<double>& all) { return std::vector<float>(all.begin(), all.end()); };
    return {narrow(out_), narrow(lse_), narrow(dq_), narrow(dk_), narrow(dv_)};
  }

 private:
  double keep(int64_t head, int64_t row, int64_t key) const {
    if (!args_.dropout) return 1;
    const auto column = static_cast<uint32_t>(head * dropout_columns(args_.seq) + key);
    const auto token = scalars_.token_base + static_cast<uint32_t>(row);
    const RandomBlock words = random_words(scalars_.seed, args_.dropout_site, scalars_.step, token, column / 8);
    const uint32_t threshold = drop_threshold(scalars_.dropout);
    return keeps(words, column % 8, threshold) ? 65536.0 / (65536 - threshold) : 0;
  }

  void query(int64_t head, int64_t row, int64_t position, int64_t kv_begin, int64_t num_keys) {
    const int64_t d = c_.head_dim, kv_head = head / (c_.heads / c_.kv_heads);
    const auto q_at = static_cast<size_t>((row * c_.heads + head) * d);
    const auto kv_at = [&](int64_t key) { return static_cast<size_t>(((kv_begin + key) * c_.kv_heads + kv_head) * d); };
    const auto dot = [&](const auto& a, size_t at, const auto& b, size_t bt) {
      double sum = 0;
      for (size_t i = 0; i < static_cast<size_t>(d); ++i) sum += double(a[at + i]) * double(b[bt + i]);
      return sum;
    };
    const auto visible = [&](int64_t key) {
      return (args_.mask.left < 0 || key >= position - args_.mask.left) &&
             (args_.mask.right < 0 || key <= position + args_.mask.right);
    };
    std::vector<double> weight(static_cast<size_t>(num_keys));
    double total = 0;
    for (int64_t key = 0; key < num_keys; ++key) {
      if (!visible(key)) continue;
      weight[static_cast<size_t>(key)] = std::exp(args_.scale * dot(in_.q, q_at, in_.k, kv_at(key)));
      total += weight[static_cast<size_t>(key)];
    }
    if (total == 0) return;
    lse_[static_cast<size_t>(head * c_.q_rows() + row)] = std::log(total);
    for (int64_t key = 0; key < num_keys; ++key) {
      const double dropped = (weight[static_cast<size_t>(key)] /= total) * keep(head, row, key);
      for (size_t i = 0; i < static_cast<size_t>(d); ++i) {
        out_[q_at + i] += dropped * in_.v[kv_at(key) + i];
        dv_[kv_at(key) + i] += dropped * in_.dout[q_at + i];
      }
    }
    const double delta = dot(out_, q_at, in_.dout, q_at);
    for (int64_t key = 0; key < num_keys; ++key) {
      const double dweight = dot(in_.dout, q_at, in_.v, kv_at(key)) * keep(head, row, key);
      const double dscore = args_.scale * weight[static_cast<size_t>(key)] * (dweight - delta);
      for (size_t i = 0; i < static_cast<size_t>(d); ++i) {
        dq_[q_at + i] += dscore * in_.k[kv_at(key) + i];
        dk_[kv_at(key) + i] += dscore * in_.q[q_at + i];
      }
    }
  }

  const AttentionCase& c_;
  const AttentionInputs& in_;
  const AttentionArgs& args_;
  const StepScalars& scalars_;
  std::vector<double> out_, lse_, dq_, dk_, dv_;
};

}  // namespace gradmill::test
