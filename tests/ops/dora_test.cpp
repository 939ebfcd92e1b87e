// SPDX-License-Identifier: Apache-2.0
// The ops of DoRA: gains, their backward, norms of rows, scaled columns.
#include <cmath>

#include "ops/dora_backward.h"
#include "ops/dora_gain.h"
#include "ops/row_norms.h"
#include "ops/scale_columns.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

class DoraOpTest : public OpTest {};

TEST_P(DoraOpTest, RowNorms) {
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {3, 45}, {37, 259}, {5, 4096}}) {
    const ArenaScope scope(ctx_.persistent);
    const TensorView x = upload(random_values(rows * cols, 1, 1, dtype()), {rows, cols}, dtype());
    const TensorView squares = tensor({rows}, DType::fp32);
    row_norms(ctx_, {.x = x, .squares = squares});
    std::vector<float> expected;
    const std::vector<float> values = download(x);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < cols; ++c) sum += std::pow(double(values[size_t(r * cols + c)]), 2);
      expected.push_back(static_cast<float>(sum));
    }
    expect_reduction(download(squares), expected, DType::fp32, cols, 1, "squares");
  }
}

// Compares the expanded norm with the norm of the sum itself.
TEST_P(DoraOpTest, GainIsMagnitudeOverNorm) {
  constexpr int64_t kOut = 45, kIn = 70;
  const float scale = 0.7f;
  for (int64_t rank : {1, 5, 33}) {
    const ArenaScope scope(ctx_.persistent);
    const std::vector<float> w = random_values(kOut * kIn, 1, 1, dtype()), a = random_values(rank * kIn, 2, 1, dtype()),
                             b = random_values(kOut * rank, 3, 1, dtype()), m = random_values(kOut, 4, 2);
    std::vector<float> product, gram, base, norms, gains;
    for (int64_t o = 0; o < kOut; ++o) {
      double square = 0, total = 0;
      for (int64_t i = 0; i < kIn; ++i) {
        double sum = w[size_t(o * kIn + i)];
        square += sum * sum;
        for (int64_t k = 0; k < rank; ++k) sum += double(scale) * b[size_t(o * rank + k)] * a[size_t(k * kIn + i)];
        total += sum * sum;
      }
      base.push_back(static_cast<float>(square));
      norms.push_back(static_cast<float>(std::sqrt(total)));
      gains.push_back(static_cast<float>(m[size_t(o)] / std::sqrt(total)));
    }
    const auto dot = [&](const std::vector<float>& x, int64_t row, int64_t k) {
      double sum = 0;
      for (int64_t i = 0; i < kIn; ++i) sum += double(x[size_t(row * kIn + i)]) * a[size_t(k * kIn + i)];
      return static_cast<float>(sum);
    };
    for (int64_t o = 0; o < kOut; ++o) {
      for (int64_t k = 0; k < rank; ++k) product.push_back(dot(w, o, k));
    }
    for (int64_t j = 0; j < rank; ++j) {
      for (int64_t k = 0; k < rank; ++k) gram.push_back(dot(a, j, k));
    }
    DoraGainArgs args{.base_norms = upload(base, {kOut}, DType::fp32),
                      .product = upload(product, {kOut, rank}, DType::fp32),
                      .gram = upload(gram, {rank, rank}, DType::fp32),
                      .b = upload(b, {kOut, rank}, dtype()),
                      .magnitude = upload(m, {kOut}, DType::fp32),
                      .gain = tensor({kOut}, DType::fp32),
                      .scale = scale};
    dora_gain(ctx_, args);
    expect_close(download(args.gain), gains, 1e-5, "gain");
    args.magnitude = {};
    dora_gain(ctx_, args);
    expect_close(download(args.gain), norms, 1e-5, "norm");
  }
}

TEST_P(DoraOpTest, ARowOfZerosHasAFiniteGain) {
  const std::vector<float> zeros(4, 0.0f), ones(1, 1.0f);
  const DoraGainArgs args{.base_norms = upload(std::vector<float>(1, 0.0f), {1}, DType::fp32),
                          .product = upload(zeros, {1, 4}, DType::fp32),
                          .gram = upload(std::vector<float>(16, 0.0f), {4, 4}, DType::fp32),
                          .b = upload(zeros, {1, 4}, dtype()),
                          .magnitude = upload(std::vector<float>(1, 0.0f), {1}, DType::fp32),
                          .gain = tensor({1}, DType::fp32)};
  dora_gain(ctx_, args);
  EXPECT_EQ(download(args.gain)[0], 0.0f);
}

struct BackwardCase {
  DoraGradArgs args;
  std::vector<float> dz, dmagnitude;
};

TEST_P(DoraOpTest, BackwardInPlaceOfEither) {
  for (auto [rows, cols, offset] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 0}, {37, 45, 3}, {1100, 33, 0}, {67, 264, 16}, {300, 1024, 0}}) {
    for (int mode = 0; mode < 6; ++mode) {
      const ArenaScope scope(ctx_.persistent);
      const auto matrix = [&, rows = rows, cols = cols, offset = offset](uint32_t seed) {
        return upload(random_values(rows * (cols + 24), seed, 1, dtype()), {rows, cols + 24}, dtype())
            .slice_cols(offset, offset + cols);
      };
      const bool with_bias = mode % 2 == 1;
      DoraGradArgs args{.y = matrix(1),
                        .dy = matrix(2),
                        .gain = upload(random_values(cols, 3, 2), {cols}, DType::fp32),
                        .dmagnitude = upload(random_values(cols, 4), {cols}, DType::fp32),
                        .beta = mode < 2 ? 1.0f : 0.0f};
      std::vector<float> magnitude = random_values(cols, 5);
      for (float& value : magnitude) value += value < 0 ? -0.5f : 0.5f;
      if (cols > 1) magnitude[1] = 0;
      args.magnitude = upload(magnitude, {cols}, DType::fp32);
      if (with_bias) args.bias = upload(random_values(cols, 6, 1, dtype()), {cols}, dtype());
      args.dz = mode < 2 ? matrix(7) : mode < 4 ? args.y : args.dy;
      const std::vector<float> y = download(args.y), dy = download(args.dy), gain = download(args.gain),
                               old = download(args.dmagnitude);
      const std::vector<float> bias = with_bias ? download(args.bias) : std::vector<float>(size_t(cols), 0.0f);
      std::vector<float> dz(y.size()), dmagnitude(static_cast<size_t>(cols));
      for (size_t c = 0; c < size_t(cols); ++c) {
        double sum = 0;
        for (size_t r = 0; r < size_t(rows); ++r) {
          const size_t i = r * size_t(cols) + c;
          dz[i] = gain[c] * dy[i];
          sum += double(dy[i]) * (double(y[i]) - bias[c]);
        }
        dmagnitude[c] = static_cast<float>((magnitude[c] == 0 ? 0 : sum / magnitude[c]) + args.beta * old[c]);
      }
      dora_backward(ctx_, args);
      expect_within_ulps(download(args.dz), dz, dtype(), 2, "dz");
      expect_reduction(download(args.dmagnitude), dmagnitude, DType::fp32, rows, 2, "dmagnitude");
    }
  }
}

TEST_P(DoraOpTest, BackwardBitsDoNotDependOnThreads) {
  const DoraGradArgs args{.y = upload(random_values(1100 * 45, 1, 1, dtype()), {1100, 45}, dtype()),
                          .dy = upload(random_values(1100 * 45, 2, 1, dtype()), {1100, 45}, dtype()),
                          .gain = upload(random_values(45, 3), {45}, DType::fp32),
                          .magnitude = upload(random_values(45, 4), {45}, DType::fp32),
                          .dz = tensor({1100, 45}, dtype()),
                          .dmagnitude = tensor({45}, DType::fp32)};
  std::vector<float> first;
  for (int threads : {1, 2, 3, 7}) {
    use_threads(threads);
    dora_backward(ctx_, args);
    if (threads == 1) first = download(args.dmagnitude);
    expect_same_bits(download(args.dmagnitude), first, "dmagnitude");
  }
}

TEST_P(DoraOpTest, ScaleColumns) {
  for (auto [rows, cols, offset] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 0}, {37, 45, 3}, {67, 264, 16}}) {
    for (int mode = 0; mode < 16; ++mode) {
      const ArenaScope scope(ctx_.persistent);
      const auto matrix = [&, rows = rows, cols = cols, offset = offset](uint32_t seed) {
        return upload(random_values(rows * (cols + 24), seed, 1, dtype()), {rows, cols + 24}, dtype())
            .slice_cols(offset, offset + cols);
      };
      ScaleColumnsArgs args{.x = matrix(1)};
      args.y = mode & 1 ? args.x : matrix(2);
      if (mode & 2) args.gain = upload(random_values(cols, 3, 2), {cols}, DType::fp32);
      if (mode & 4) args.bias = upload(random_values(cols, 4, 1, dtype()), {cols}, dtype());
      if (mode & 8) {
        args.addend = upload(random_values(rows * cols, 5), {rows, cols}, DType::fp32);
        args.copy = matrix(6);
      }
      std::vector<float> expected = download(args.x);
      const auto at = [](const TensorView& view, size_t i, float fallback) {
        return view.defined() ? view.dtype == DType::fp32 ? view.ptr<float>()[i] : download(view)[i] : fallback;
      };
      const std::vector<float> bias =
          args.bias.defined() ? download(args.bias) : std::vector<float>(size_t(cols), 0.0f);
      for (size_t i = 0; i < expected.size(); ++i) {
        const size_t c = i % size_t(cols);
        expected[i] =
            static_cast<float>(double(at(args.gain, c, 1)) * (double(expected[i]) + at(args.addend, i, 0)) + bias[c]);
      }
      scale_columns(ctx_, args);
      expect_reduction(download(args.y), expected, dtype(), 1, 2, "y");
      if (args.copy.defined()) expect_same_bits(download(args.copy), download(args.y), "copy");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, DoraOpTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
