// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/matmul.h"

#include "support/op_test.h"

namespace gradmill::test {
namespace {

struct Size {
  int64_t m, n, k;
};
// The last one can be read 16 bytes at a time.
constexpr Size kSizes[] = {{1, 1, 1},    {3, 5, 7},       {37, 45, 33},   {1, 300, 65},
                           {129, 1, 40}, {210, 170, 190}, {128, 136, 264}};

class MatmulTest : public OpTest {
 protected:
  MatmulTest() { ctx_.kernels.tf32 = false; }

  MatmulArgs make(const Size& size, bool transpose_a, bool transpose_b, DType c_type) {
    const auto [m, n, k] = size;
    const Shape a = transpose_a ? Shape{k, m} : Shape{m, k}, b = transpose_b ? Shape{n, k} : Shape{k, n};
    return {.a = upload(random_values(m * k, 1, 1, dtype()), a, dtype()),
            .b = upload(random_values(k * n, 2, 1, dtype()), b, dtype()),
            .c = tensor({m, n}, c_type),
            .transpose_a = transpose_a,
            .transpose_b = transpose_b};
  }

  // Computed in double precision from the rounded inputs of the op; `old` is the previous c.
  static std::vector<float> reference(const MatmulArgs& args, const std::vector<float>& old = {}) {
    const std::vector<float> a = download(args.a), b = download(args.b);
    const std::vector<float> bias = args.bias.defined() ? download(args.bias) : std::vector<float>{};
    const int64_t m = args.c.rows(), n = args.c.cols(), k = args.a.numel() / m;
    std::vector<float> result;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = bias.empty() ? 0 : double(bias[static_cast<size_t>(j)]) / args.alpha;
        if (!old.empty()) sum += double(args.beta) * old[result.size()] / args.alpha;
        for (int64_t p = 0; p < k; ++p) {
          sum += double(a[static_cast<size_t>(args.transpose_a ? p * m + i : i * k + p)]) *
                 b[static_cast<size_t>(args.transpose_b ? j * k + p : p * n + j)];
        }
        result.push_back(static_cast<float>(sum * args.alpha));
      }
    }
    return result;
  }

  // fp32 accumulation, then one rounding to c's dtype.
  static void expect_product(const MatmulArgs& args, const std::vector<float>& expected) {
    const int64_t k = args.transpose_a ? args.a.rows() : args.a.cols();
    const bool narrow = args.c.dtype != DType::fp32;
    expect_reduction(download(args.c), expected, args.c.dtype, narrow ? 1 : k, 1, "c");
  }
};

TEST_P(MatmulTest, EveryTranspositionAndSize) {
  for (const Size& size : kSizes) {
    for (int transpose = 0; transpose < 4; ++transpose) {
      SCOPED_TRACE(Shape({size.m, size.n, size.k, transpose}).str());
      const ArenaScope scope(ctx_.persistent);
      const MatmulArgs args = make(size, transpose & 1, transpose & 2, dtype());
      matmul(ctx_, args);
      expect_product(args, reference(args));
    }
  }
}

TEST_P(MatmulTest, Fp32Result) {
  const MatmulArgs args = make({37, 45, 33}, true, false, DType::fp32);
  matmul(ctx_, args);
  expect_product(args, reference(args));
}

// Large enough for several tiles: each must use its own part of the bias.
TEST_P(MatmulTest, BetaAndBias) {
  for (DType c_type : {dtype(), DType::fp32}) {
    for (float beta : {1.0f, 0.5f}) {
      MatmulArgs args = make({170, 210, 190}, false, true, c_type);
      const std::vector<float> old = random_values(170 * 210, 3, 2, dtype());
      args.c = upload(old, {170, 210}, c_type);
      args.alpha = beta == 1 ? 1.0f : 0.25f;
      args.beta = beta;
      args.bias = upload(random_values(210, 4, 3, dtype()), {210}, dtype());
      const std::vector<float> expected = reference(args, old);
      matmul(ctx_, args);
      expect_product(args, expected);
    }
  }
}

// Ten bits of mantissa: errors of 2^-11 in each factor.
TEST_P(MatmulTest, Tf32) {
  ctx_.kernels.tf32 = true;
  const MatmulArgs args = make({128, 136, 264}, false, true, DType::fp32);
  matmul(ctx_, args);
  expect_close(download(args.c), reference(args), 1e-3, "c");
}

TEST_P(MatmulTest, ColumnsOfPackedBuffers) {
  MatmulArgs args = make({21, 13, 17}, false, true, dtype());
  const MatmulArgs dense = args;
  // The view is in columns 9.. of a buffer of 40 columns filled with 7.
  const auto pack = [&](const TensorView& view) {
    std::vector<float> wide(static_cast<size_t>(view.rows() * 40), 7.0f);
    const std::vector<float> values = download(view);
    const auto cols = static_cast<size_t>(view.cols());
    for (size_t i = 0; i < values.size(); ++i) wide[i / cols * 40 + 9 + i % cols] = values[i];
    return upload(wide, {view.rows(), 40}, dtype());
  };
  const TensorView around = pack(dense.c), c = around.slice_cols(9, 22);
  args.a = pack(dense.a).slice_cols(9, 26);
  args.b = pack(dense.b).slice_cols(9, 26);
  args.c = c;
  matmul(ctx_, dense);
  matmul(ctx_, args);
  expect_product(args, reference(args));
  // A GPU uses other kernels for data that cannot be read 16 bytes at a time.
  if (!on_gpu()) expect_same_bits(download(c), download(dense.c), "c");
  expect_same_bits(download(around.slice_cols(0, 9)), std::vector<float>(21 * 9, 7.0f), "left of c");
  expect_same_bits(download(around.slice_cols(22, 40)), std::vector<float>(21 * 18, 7.0f), "right of c");
}

// Three GEMMs whose operands and results are not adjacent.
TEST_P(MatmulTest, Batch) {
  constexpr int64_t kM = 40, kN = 24, kK = 33, kCount = 3, kA = kK * kM + 8, kB = kK * kN + 16, kC = kM * kN + 4;
  for (float beta : {0.0f, 1.0f}) {
    const std::vector<float> old = random_values(kCount * kC, 3);
    const TensorView a = upload(random_values(kCount * kA, 1, 1, dtype()), {kCount * kA}, dtype());
    const TensorView b = upload(random_values(kCount * kB, 2, 1, dtype()), {kCount * kB}, dtype());
    const TensorView c = upload(old, {kCount * kC}, DType::fp32);
    MatmulArgs args{.a = TensorView(a.data, dtype(), {kK, kM}),
                    .b = TensorView(b.data, dtype(), {kK, kN}),
                    .c = TensorView(c.data, DType::fp32, {kM, kN}),
                    .transpose_a = true,
                    .beta = beta,
                    .batch = {.count = kCount, .a = kA, .b = kB, .c = kC}};
    matmul(ctx_, args);
    for (int64_t i = 0; i < kCount; ++i) {
      MatmulArgs part = args;
      part.a = args.a.shifted(i * kA), part.b = args.b.shifted(i * kB), part.c = args.c.shifted(i * kC);
      const auto begin = old.begin() + i * kC;
      const std::vector<float> before = beta == 0 ? std::vector<float>{} : std::vector<float>(begin, begin + kM * kN);
      expect_product(part, reference(part, before));
      expect_same_bits(download(c.slice_rows(i * kC + kM * kN, (i + 1) * kC)),
                       std::vector<float>(begin + kM * kN, begin + kC), "after a result");
    }
  }
}

TEST_P(MatmulTest, BitsDoNotDependOnThreads) {
  for (const Size& size : {Size{210, 170, 190}, Size{700, 400, 64}}) {
    std::vector<float> first;
    const MatmulArgs args = make(size, false, true, dtype());
    for (int threads : {1, 2, 3, 7}) {
      use_threads(threads);
      matmul(ctx_, args);
      if (threads == 1) first = download(args.c);
      expect_same_bits(download(args.c), first, "c");
    }
  }
}

TEST_P(MatmulTest, OnPaperTheCostIsExactAndScratchAsInTheRun) {
  const MatmulArgs real = make({37, 45, 33}, false, false, dtype());
  const size_t before = ctx_.scratch.high_water();
  matmul(ctx_, real);
  Ledger ledger;
  ExecContext paper;
  paper.device = ctx_.device;
  paper.dry = true;
  paper.ledger = &ledger;
  const auto blank = [&](const TensorView& view) { return TensorView(nullptr, view.dtype, view.shape); };
  matmul(paper, {.a = blank(real.a), .b = blank(real.b), .c = blank(real.c)});
  EXPECT_DOUBLE_EQ(ledger.lines().at("matmul").flops, 2.0 * 37 * 45 * 33);
  EXPECT_EQ(paper.scratch.high_water(), ctx_.scratch.high_water() - before);
}

INSTANTIATE_TEST_SUITE_P(Ops, MatmulTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
