// SPDX-License-Identifier: Apache-2.0
// Without timing results the op is a GEMM and an activation, bit for bit. The kernels of a GPU's library are tested in
// cuda/gemm_test.cpp.
#include "ops/matmul/matmul_activation.h"

#include "ops/activation.h"
#include "ops/matmul/matmul.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

struct Size {
  int64_t n, k, f;
  Activation kind = Activation::gelu_tanh;
  int64_t columns() const { return is_gated(kind) ? 2 * f : f; }  // of x
};
constexpr int64_t kN = 37, kK = 24, kF = 40;
constexpr Size kSmall[] = {{kN, kK, kF}, {kN, kK, kF, Activation::swiglu}};

class MatmulActivationTest : public OpTest {
 protected:
  explicit MatmulActivationTest(size_t arena_bytes = size_t{8} << 20) : OpTest(arena_bytes) {
    ctx_.kernels.tf32 = false;
  }

  // x = a · bᵀ, and the activation of x in y.
  static MatmulActivationArgs forward_of(Activation kind, const TensorView& a, const TensorView& b, const TensorView& x,
                                         const TensorView& y, const TensorView& bias = {}) {
    return {.kind = kind,
            .product = {.a = a, .b = b, .c = x, .transpose_b = true, .bias = bias},
            .x = x,
            .y = y,
            .exact = true};
  }

  TensorView matrix(int64_t rows, int64_t cols, uint32_t seed) {
    return upload(random_values(rows * cols, seed, 1, dtype()), {rows, cols}, dtype());
  }
};

TEST_P(MatmulActivationTest, IsItsTwoParts) {
  for (const Size& size : kSmall) {
    const int64_t columns = size.columns();
    for (bool with_bias : {false, true}) {
      const TensorView a = matrix(kN, kK, 1), b = matrix(columns, kK, 2);
      TensorView bias;
      if (with_bias) bias = upload(random_values(columns, 5, 1, dtype()), {columns}, dtype());
      MatmulActivationArgs args = forward_of(size.kind, a, b, matrix(kN, columns, 3), matrix(kN, kF, 4), bias);
      args.exact = false;
      matmul_activation(ctx_, args);
      const TensorView x = tensor({kN, columns}, dtype()), y = tensor({kN, kF}, dtype());
      matmul(ctx_, {.a = a, .b = b, .c = x, .transpose_b = true, .bias = bias});
      activation_forward(ctx_, {.kind = size.kind, .x = x, .y = y});
      expect_same_bits(download(args.x), download(x), "x");
      expect_same_bits(download(args.y.plain), download(y), "y");
    }
  }
}

TEST_P(MatmulActivationTest, BackwardIsItsTwoParts) {
  for (const Size& size : kSmall) {
    const int64_t columns = size.columns();
    const std::vector<float> old = random_values(columns, 9);
    for (bool with_bias : {false, true}) {
      MatmulActivationGradArgs args{.kind = size.kind,
                                    .product = {.a = matrix(kN, kK, 1), .b = matrix(kK, kF, 2)},
                                    .x = matrix(kN, columns, 3),
                                    .dx = tensor({kN, columns}, dtype())};
      TensorView dbias;
      if (with_bias) {
        args.dbias = upload(old, {columns}, DType::fp32);
        args.bias_beta = 1;
        dbias = upload(old, {columns}, DType::fp32);
      }
      const std::vector<float> values = download(args.x);
      matmul_activation_backward(ctx_, args);
      expect_same_bits(download(args.x), values, "x as it was");
      const TensorView dy = tensor({kN, kF}, dtype()), dx = tensor({kN, columns}, dtype());
      matmul(ctx_, {.a = args.product.a.plain, .b = args.product.b.plain, .c = dy});
      activation_backward(
          ctx_, {.kind = size.kind, .x = args.x, .dy = dy, .dx = dx, .dbias = dbias, .bias_beta = args.bias_beta});
      expect_same_bits(download(args.dx.plain), download(dx), "dx");
      if (with_bias) expect_same_bits(download(args.dbias), download(dbias), "dbias");
    }
  }
}

// Without a product, x is there already.
TEST_P(MatmulActivationTest, WithoutAProductIsTheActivation) {
  const TensorView x = matrix(kN, 2 * kF, 1), y = tensor({kN, kF}, dtype()), expected = tensor({kN, kF}, dtype());
  matmul_activation(ctx_, {.kind = Activation::swiglu, .x = x, .y = y});
  activation_forward(ctx_, {.kind = Activation::swiglu, .x = x, .y = expected});
  expect_same_bits(download(y), download(expected), "y");
}

// Cases for the fused kernels of a GPU: shares of 192 and of 128 columns, rows that do not fill a tile, many tiles per
// block, all depths from one block of 64 to six. Then deeper ones, with every activation, with one column of tiles and
// with more than a band of them.
constexpr Size kFused[] = {{2085, 384, 384},
                           {2048, 128, 256},
                           {2311, 192, 384},
                           {5001, 384, 1536},
                           {5001, 64, 1536},
                           {2111, 256, 512},
                           {3009, 320, 192},
                           {2085, 512, 512, Activation::swiglu},
                           {5001, 768, 768, Activation::swiglu},
                           {2048, 576, 2304, Activation::gelu_tanh},
                           {2311, 640, 256, Activation::gelu_erf},
                           {2500, 512, 1280, Activation::geglu_tanh},
                           {2049, 1024, 256, Activation::geglu_erf}};

class FusedMatmulActivationTest : public MatmulActivationTest {
 protected:
  FusedMatmulActivationTest() : MatmulActivationTest(size_t{320} << 20) {}
};

class LargeMatmulActivationTest : public MatmulActivationTest {
 protected:
  LargeMatmulActivationTest() : MatmulActivationTest(size_t{640} << 20) {}
};

TEST_P(FusedMatmulActivationTest, IsItsTwoParts) {
  for (const Size& size : kFused) {
    const auto& [n, k, f, kind] = size;
    for (bool with_bias : {false, true}) {
      const ArenaScope scope(ctx_.persistent);
      const TensorView a = matrix(n, k, 1), b = matrix(size.columns(), k, 2);
      TensorView bias;
      if (with_bias) bias = upload(random_values(size.columns(), 5, 1, dtype()), {size.columns()}, dtype());
      const MatmulActivationArgs args =
          forward_of(kind, a, b, tensor({n, size.columns()}, dtype()), tensor({n, f}, dtype()), bias);
      matmul_activation(ctx_, args);
      const TensorView x = tensor(args.x.shape, dtype()), y = tensor({n, f}, dtype());
      matmul(ctx_, {.a = a, .b = b, .c = x, .transpose_b = true, .bias = bias});
      expect_close(download(args.x), download(x), epsilon_of(dtype()), "x");
      activation_forward(ctx_, {.kind = kind, .x = args.x, .y = y});
      expect_same_bits(download(args.y.plain), download(y), "y");
    }
  }
}

TEST_P(FusedMatmulActivationTest, BackwardIsItsTwoParts) {
  for (const Size& size : kFused) {
    const auto& [n, k, f, kind] = size;
    const ArenaScope scope(ctx_.persistent);
    const MatmulActivationGradArgs args{.kind = kind,
                                        .product = {.a = matrix(n, k, 1), .b = matrix(k, f, 2)},
                                        .x = matrix(n, size.columns(), 3),
                                        .dx = tensor({n, size.columns()}, dtype()),
                                        .y = tensor({n, f}, dtype())};
    matmul_activation_backward(ctx_, args);
    const TensorView dy = tensor({n, f}, dtype()), dx = tensor(args.x.shape, dtype()), y = tensor({n, f}, dtype());
    matmul(ctx_, {.a = args.product.a.plain, .b = args.product.b.plain, .c = dy});
    activation_backward(ctx_, {.kind = kind, .x = args.x, .dy = dy, .dx = dx, .y = y});
    expect_close(download(args.dx.plain), download(dx), 2 * epsilon_of(dtype()), "dx");
    expect_same_bits(download(args.y.plain), download(y), "y");
    if (!matmul_activation_backward_can_overwrite(ctx_, args)) continue;
    MatmulActivationGradArgs over = args;
    over.dx = args.x;
    matmul_activation_backward(ctx_, over);
    expect_same_bits(download(over.x), download(args.dx.plain), "dx over x");
    expect_same_bits(download(over.y.plain), download(y), "y beside it");
  }
}

// Every cluster of blocks has several tiles, and the last rows do not fill one.
TEST_P(LargeMatmulActivationTest, BlocksTakeManyTiles) {
  for (const Size& size : {Size{33000, 512, 768, Activation::swiglu}, Size{33000, 512, 768, Activation::gelu_tanh}}) {
    const auto& [n, k, f, kind] = size;
    const ArenaScope scope(ctx_.persistent);
    const TensorView a = matrix(n, k, 1), x = tensor({n, size.columns()}, dtype()), y = tensor({n, f}, dtype());
    const TensorView other_x = tensor(x.shape, dtype()), other_y = tensor(y.shape, dtype());
    const TensorView b = matrix(size.columns(), k, 2), c = matrix(k, f, 3);
    matmul_activation(ctx_, forward_of(kind, a, b, x, y));
    matmul(ctx_, {.a = a, .b = b, .c = other_x, .transpose_b = true});
    activation_forward(ctx_, {.kind = kind, .x = x, .y = other_y});
    expect_close(download(x), download(other_x), epsilon_of(dtype()), "x");
    expect_same_bits(download(y), download(other_y), "y");
    matmul(ctx_, {.a = a, .b = c, .c = y});
    activation_backward(ctx_, {.kind = kind, .x = x, .dy = y, .dx = other_x});
    MatmulActivationGradArgs gradient{.kind = kind, .product = {.a = a, .b = c}, .x = x, .dx = x};
    // For kinds without gates, only the fused kernel can write the gradient over x.
    const bool overwrites = kind == Activation::swiglu || matmul_activation_backward_can_overwrite(ctx_, gradient);
    if (!overwrites) gradient.dx = tensor(x.shape, dtype());
    matmul_activation_backward(ctx_, gradient);
    expect_close(download(gradient.dx.plain), download(other_x), 2 * epsilon_of(dtype()), "dx");
  }
}

// Rows that are parts of wider ones, whose other columns must not change.
TEST_P(FusedMatmulActivationTest, TakesStridedViews) {
  constexpr int64_t n = 2085, k = 128, f = 384, begin = 16, wide = f + 40;
  const auto part = [&](uint32_t seed) { return matrix(n, wide, seed).slice_cols(begin, begin + f); };
  const auto around = [&](const TensorView& view) {
    const TensorView whole(static_cast<std::byte*>(view.data) - begin * static_cast<int64_t>(size_of(dtype())), dtype(),
                           {n, wide});
    auto values = download(whole.slice_cols(0, begin));
    const auto right = download(whole.slice_cols(begin + f, wide));
    values.insert(values.end(), right.begin(), right.end());
    return values;
  };
  const TensorView a = matrix(n, k + 8, 1).slice_cols(8, 8 + k);
  const TensorView b = matrix(f, k + 24, 2).slice_cols(0, k);
  const MatmulActivationArgs args = forward_of(Activation::gelu_tanh, a, b, part(3), part(4));
  const auto beside_x = around(args.x), beside_y = around(args.y.plain);
  matmul_activation(ctx_, args);
  expect_same_bits(around(args.x), beside_x, "beside x");
  expect_same_bits(around(args.y.plain), beside_y, "beside y");
  const TensorView x = tensor({n, f}, dtype()), y = tensor({n, f}, dtype());
  matmul(ctx_, {.a = a, .b = b, .c = x, .transpose_b = true});
  expect_close(download(args.x), download(x), epsilon_of(dtype()), "x");
  activation_forward(ctx_, {.kind = Activation::gelu_tanh, .x = args.x, .y = y});
  expect_same_bits(download(args.y.plain), download(y), "y");

  const TensorView c = matrix(k, f + 8, 5).slice_cols(8, 8 + f);
  const MatmulActivationGradArgs gradient{.product = {.a = a, .b = c}, .x = args.x, .dx = part(6), .y = part(7)};
  const auto beside_dx = around(gradient.dx.plain), beside_again = around(gradient.y.plain);
  matmul_activation_backward(ctx_, gradient);
  expect_same_bits(around(gradient.dx.plain), beside_dx, "beside dx");
  expect_same_bits(around(gradient.y.plain), beside_again, "beside y again");
  const TensorView dy = tensor({n, f}, dtype()), dx = tensor({n, f}, dtype());
  matmul(ctx_, {.a = a, .b = c, .c = dy});
  activation_backward(ctx_, {.kind = Activation::gelu_tanh, .x = args.x, .dy = dy, .dx = dx});
  expect_close(download(gradient.dx.plain), download(dx), 2 * epsilon_of(dtype()), "dx");
  expect_same_bits(download(gradient.y.plain), download(y), "y again");
}

// Without y the kernel is another one.
TEST_P(FusedMatmulActivationTest, BackwardWithoutItsOutputIsTheSame) {
  for (const Size& size : kFused) {
    const auto& [n, k, f, kind] = size;
    const ArenaScope scope(ctx_.persistent);
    MatmulActivationGradArgs args{.kind = kind,
                                  .product = {.a = matrix(n, k, 1), .b = matrix(k, f, 2)},
                                  .x = matrix(n, size.columns(), 3),
                                  .dx = tensor({n, size.columns()}, dtype()),
                                  .y = tensor({n, f}, dtype())};
    if (!matmul_activation_backward_can_overwrite(ctx_, args)) GTEST_SKIP() << "two ops here";
    matmul_activation_backward(ctx_, args);
    const std::vector<float> expected = download(args.dx.plain);
    args.y = {};
    args.dx = tensor(args.x.shape, dtype());
    matmul_activation_backward(ctx_, args);
    expect_same_bits(download(args.dx.plain), expected, "dx");
    args.dx = args.x;
    matmul_activation_backward(ctx_, args);
    expect_same_bits(download(args.dx.plain), expected, "dx over x");
  }
}

TEST_P(MatmulActivationTest, OnPaperScratchIsAsInTheRun) {
  // Gated ones need more: they come last.
  for (const Size& size : kSmall) {
    const MatmulActivationGradArgs args{.kind = size.kind,
                                        .product = {.a = matrix(kN, kK, 1), .b = matrix(kK, kF, 2)},
                                        .x = matrix(kN, size.columns(), 3),
                                        .dx = tensor({kN, size.columns()}, dtype()),
                                        .dbias = tensor({size.columns()}, DType::fp32)};
    matmul_activation_backward(ctx_, args);
    ExecContext paper;
    paper.device = ctx_.device;
    paper.dry = true;
    matmul_activation_backward(paper, args);
    EXPECT_EQ(paper.scratch.high_water(), ctx_.scratch.high_water());
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, MatmulActivationTest, testing::ValuesIn(all_cases()), case_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LargeMatmulActivationTest);
INSTANTIATE_TEST_SUITE_P(Ops, LargeMatmulActivationTest, testing::ValuesIn(narrow_gpu_cases()), case_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FusedMatmulActivationTest);
INSTANTIATE_TEST_SUITE_P(Ops, FusedMatmulActivationTest, testing::ValuesIn(narrow_gpu_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
