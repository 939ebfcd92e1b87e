// SPDX-License-Identifier: Apache-2.0
// A naive implementation of disentangled attention in double precision, forward and backward.
#pragma once

#include <cmath>
#include <vector>

#include "core/rng.h"
#include "ops/disentangled/disentangled_attention.h"

namespace gradmill::test {

struct DisentangledCase {
  const char* name = "";
  std::vector<int32_t> lens;
  int64_t heads = 1, head_dim = 8;
  DistanceBuckets buckets{8, 32, true};
  bool content_to_position = true, position_to_content = true;
  int64_t max_len = 0;    // 0: the longest sequence
  int64_t table_len = 0;  // positions in the bucket table; 0: max_len
  bool dropout = false;
  int64_t padding = 5;  // rows after the last sequence
  bool dense = false;   // all sequences have max_len rows, and SeqLayout::dense is set

  int64_t rows() const {
    int64_t sum = padding;
    for (int64_t len : lens) sum += len;
    return sum;
  }
  int64_t longest() const {
    int64_t longest = std::max<int64_t>(max_len, 1);
    for (int64_t len : lens) longest = std::max(longest, len);
    return longest;
  }
  int64_t cols() const { return heads * head_dim; }
  int64_t num_terms() const { return 1 + int64_t{content_to_position} + int64_t{position_to_content}; }
};

struct DisentangledInputs {
  std::vector<float> q, k, v, dout;  // (N, H * D)
  std::vector<float> pos_k, pos_q;   // (2 S, H * D)
};

struct DisentangledResult {
  std::vector<float> out, lse, dq, dk, dv, dpos_k, dpos_q;
};

class DisentangledReference {
 public:
  DisentangledReference(const DisentangledCase& c, const DisentangledInputs& in, const AttentionArgs& args,
                        const StepScalars& scalars)
      : c_(c), in_(in), args_(args), scalars_(scalars), buckets_(bucket_table(c.buckets, c.longest())) {
    const size_t size = in.q.size();
    lse_.resize(static_cast<size_t>(c.rows() * c.heads));
    for (auto* values : {&out_, &dq_, &dk_, &dv_}) values->resize(size);
    dpos_k_.resize(in.pos_k.size()), dpos_q_.resize(in.pos_q.size());
  }

  DisentangledResult run() {
    int64_t begin = 0;
    for (int32_t len : c_.lens) {
      for (int64_t head = 0; head < c_.heads; ++head) {
        for (int64_t q = 0; q < len; ++q) query(head, begin, q, len);
      }
      begin += len;
    }
    const auto narrow = [](const std::vector<double>& all) { return std::vector<float>(all.begin(), all.end()); };
    return {narrow(out_), narrow(lse_), narrow(dq_), narrow(dk_), narrow(dv_), narrow(dpos_k_), narrow(dpos_q_)};
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
  size_t at(int64_t head, int64_t row) const { return static_cast<size_t>((row * c_.heads + head) * c_.head_dim); }
  size_t position(int64_t head, int64_t distance) const {
    return at(head, buckets_[static_cast<size_t>(distance + c_.longest() - 1)]);
  }
  template <class A, class B>
  double dot(const A& a, size_t i, const B& b, size_t j) const {
    double sum = 0;
    for (size_t e = 0; e < static_cast<size_t>(c_.head_dim); ++e) sum += double(a[i + e]) * double(b[j + e]);
    return sum;
  }
  void add(std::vector<double>& to, size_t i, double factor, const std::vector<float>& from, size_t j) const {
    for (size_t e = 0; e < static_cast<size_t>(c_.head_dim); ++e) to[i + e] += factor * double(from[j + e]);
  }

  void query(int64_t head, int64_t begin, int64_t q, int64_t len) {
    const size_t mine = at(head, begin + q);
    std::vector<double> weights(static_cast<size_t>(len));
    double total = 0;
    for (int64_t k = 0; k < len; ++k) {
      const size_t theirs = at(head, begin + k), pos = position(head, q - k);
      double score = dot(in_.q, mine, in_.k, theirs);
      if (c_.content_to_position) score += dot(in_.q, mine, in_.pos_k, pos);
      if (c_.position_to_content) score += dot(in_.k, theirs, in_.pos_q, pos);
      total += weights[static_cast<size_t>(k)] = std::exp(args_.scale * score);
    }
    lse_[static_cast<size_t>(head * c_.rows() + begin + q)] = std::log(total);
    for (int64_t k = 0; k < len; ++k) {
      const size_t theirs = at(head, begin + k);
      const double dropped = (weights[static_cast<size_t>(k)] /= total) * keep(head, begin + q, k);
      add(out_, mine, dropped, in_.v, theirs);
      add(dv_, theirs, dropped, in_.dout, mine);
    }
    const double delta = dot(out_, mine, in_.dout, mine);
    for (int64_t k = 0; k < len; ++k) {
      const size_t theirs = at(head, begin + k), pos = position(head, q - k);
      const double dweight = dot(in_.dout, mine, in_.v, theirs) * keep(head, begin + q, k);
      const double dscore = args_.scale * weights[static_cast<size_t>(k)] * (dweight - delta);
      add(dq_, mine, dscore, in_.k, theirs);
      add(dk_, theirs, dscore, in_.q, mine);
      if (c_.content_to_position) {
        add(dq_, mine, dscore, in_.pos_k, pos);
        add(dpos_k_, pos, dscore, in_.q, mine);
      }
      if (c_.position_to_content) {
        add(dk_, theirs, dscore, in_.pos_q, pos);
        add(dpos_q_, pos, dscore, in_.k, theirs);
      }
    }
  }

  const DisentangledCase& c_;
  const DisentangledInputs& in_;
  const AttentionArgs& args_;
  const StepScalars& scalars_;
  std::vector<int32_t> buckets_;
  std::vector<double> out_, lse_, dq_, dk_, dv_, dpos_k_, dpos_q_;
};

}  // namespace gradmill::test
