// SPDX-License-Identifier: Apache-2.0
#include "ops/pool_rows.h"

#include "support/op_test.h"

namespace gradmill::test {
namespace {

// Sequences of 5, 0, 1, 30 and 0 rows, then padding.
const std::vector<int32_t> kOffsets = {0, 5, 5, 6, 36, 36};
constexpr int64_t kRows = 40, kSeqs = 5;
constexpr Pooling kKinds[] = {Pooling::first, Pooling::last, Pooling::mean};

class PoolRowsTest : public OpTest {
 protected:
  // The weight of row r in the result of sequence s.
  static float share(Pooling kind, int64_t s, int64_t r) {
    const int64_t begin = kOffsets[size_t(s)], end = kOffsets[size_t(s) + 1];
    if (r < begin || r >= end) return 0;
    if (kind == Pooling::mean) return 1.0f / static_cast<float>(end - begin);
    return r == (kind == Pooling::first ? begin : end - 1) ? 1.0f : 0.0f;
  }
};

// Whole vectors, and odd columns in the middle of wider rows.
TEST_P(PoolRowsTest, OneRowASequence) {
  for (const auto& [first, last] : {std::pair{0, 64}, std::pair{3, 36}}) {
    for (Pooling kind : kKinds) {
      const TensorView x =
          upload(random_values(kRows * 64, 1, 1, dtype()), {kRows, 64}, dtype()).slice_cols(first, last);
      const TensorView y = tensor({kSeqs, x.cols()}, dtype());
      pool_rows_forward(ctx_, {.kind = kind, .x = x, .cu = upload(kOffsets), .y = y});
      const std::vector<float> values = download(x);
      std::vector<float> expected;
      for (int64_t s = 0; s < kSeqs; ++s) {
        for (int64_t c = 0; c < x.cols(); ++c) {
          double sum = 0;
          for (int64_t r = 0; r < kRows; ++r) sum += double(share(kind, s, r)) * values[size_t(r * x.cols() + c)];
          expected.push_back(static_cast<float>(sum));
        }
      }
      expect_reduction(download(y), expected, dtype(), 30, 2, "y");
      if (kind == Pooling::mean) continue;
      expect_same_bits(download(y), expected, "y");
    }
  }
}

TEST_P(PoolRowsTest, GradientFillsEveryRow) {
  for (const auto& [first, last] : {std::pair{0, 64}, std::pair{3, 36}}) {
    for (Pooling kind : kKinds) {
      const TensorView dy =
          upload(random_values(kSeqs * 64, 2, 1, dtype()), {kSeqs, 64}, dtype()).slice_cols(first, last);
      const TensorView dx = tensor({kRows, dy.cols()}, dtype());
      pool_rows_backward(ctx_, {.kind = kind, .cu = upload(kOffsets), .dy = dy, .dx = dx});
      const std::vector<float> values = download(dy);
      std::vector<float> expected(size_t(kRows * dy.cols()), 0);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t s = 0; s < kSeqs; ++s) {
          for (int64_t c = 0; c < dy.cols(); ++c) {
            expected[size_t(r * dy.cols() + c)] += share(kind, s, r) * values[size_t(s * dy.cols() + c)];
          }
        }
      }
      expect_within_ulps(download(dx), expected, dtype(), 1, "dx");
    }
  }
}

TEST_P(PoolRowsTest, BitsDoNotDependOnThreads) {
  const TensorView x = upload(random_values(kRows * 257, 3, 1, dtype()), {kRows, 257}, dtype());
  std::vector<float> first;
  for (int threads : {1, 2, 3, 7}) {
    use_threads(threads);
    const TensorView y = tensor({kSeqs, 257}, dtype());
    pool_rows_forward(ctx_, {.kind = Pooling::mean, .x = x, .cu = upload(kOffsets), .y = y});
    if (first.empty()) first = download(y);
    expect_same_bits(download(y), first, "y");
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, PoolRowsTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
