// SPDX-License-Identifier: Apache-2.0
// Where nothing was timed it is the product and the activation, bit for bit; the kernels of a GPU's library are tested
// in cuda/gemm_test.cpp.
#include "ops/matmul_gelu.h"

#include "ops/activation.h"
#include "ops/matmul.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kN = 37, kK = 24, kF = 40;

class MatmulGeluTest : public OpTest {
 protected:
  explicit MatmulGeluTest(size_t arena_bytes = size_t{8} << 20) : OpTest(arena_bytes) { ctx_.kernels.tf32 = false; }

  TensorView matrix(int64_t rows, int64_t cols, uint32_t seed) {
    return upload(random_values(rows * cols, seed, 1, dtype()), {rows, cols}, dtype());
  }
};

TEST_P(MatmulGeluTest, IsItsTwoParts) {
  for (bool with_bias : {false, true}) {
    MatmulGeluArgs args{.a = matrix(kN, kK, 1), .b = matrix(kF, kK, 2), .x = matrix(kN, kF, 3), .y = matrix(kN, kF, 4)};
    if (with_bias) args.bias = upload(random_values(kF, 5, 1, dtype()), {kF}, dtype());
    matmul_gelu(ctx_, args);
    const TensorView x = tensor({kN, kF}, dtype()), y = tensor({kN, kF}, dtype());
    matmul(ctx_, {.a = args.a, .b = args.b, .c = x, .transpose_b = true, .bias = args.bias});
    activation_forward(ctx_, {.kind = Activation::gelu_tanh, .x = x, .y = Operand(y)});
    expect_same_bits(download(args.x), download(x), "x");
    expect_same_bits(download(args.y), download(y), "y");
  }
}

TEST_P(MatmulGeluTest, BackwardIsItsTwoParts) {
  const std::vector<float> old = random_values(kF, 9);
  for (bool with_bias : {false, true}) {
    MatmulGeluGradArgs args{
        .a = matrix(kN, kK, 1), .b = matrix(kK, kF, 2), .x = matrix(kN, kF, 3), .dx = tensor({kN, kF}, dtype())};
    TensorView dbias;
    if (with_bias) {
      args.dbias = upload(old, {kF}, DType::fp32);
      args.bias_beta = 1;
      dbias = upload(old, {kF}, DType::fp32);
    }
    const std::vector<float> values = download(args.x);
    matmul_gelu_backward(ctx_, args);
    expect_same_bits(download(args.x), values, "x as it was");
    const TensorView dy = tensor({kN, kF}, dtype()), dx = tensor({kN, kF}, dtype());
    matmul(ctx_, {.a = args.a, .b = args.b, .c = dy});
    activation_backward(
        ctx_,
        {.kind = Activation::gelu_tanh, .x = args.x, .dy = dy, .dx = dx, .dbias = dbias, .bias_beta = args.bias_beta});
    expect_same_bits(download(args.dx), download(dx), "dx");
    if (with_bias) expect_same_bits(download(args.dbias), download(dbias), "dbias");
  }
}

struct Size {
  int64_t n, k, f;
};
// What one kernel of a GPU takes: shares of 192 columns and of 128, rows that fill no tile, many tiles a block, all
// depths from one block of 64 to six.
constexpr Size kNarrow[] = {{2085, 384, 384}, {2048, 128, 256}, {2311, 192, 384}, {5001, 384, 1536},
                            {5001, 64, 1536}, {2111, 256, 512}, {3009, 320, 192}};

class NarrowMatmulGeluTest : public MatmulGeluTest {
 protected:
  NarrowMatmulGeluTest() : MatmulGeluTest(size_t{224} << 20) {}
};

TEST_P(NarrowMatmulGeluTest, IsItsTwoParts) {
  for (const auto& [n, k, f] : kNarrow) {
    for (bool with_bias : {false, true}) {
      const ArenaScope scope(ctx_.persistent);
      MatmulGeluArgs args{.a = matrix(n, k, 1),
                          .b = matrix(f, k, 2),
                          .x = tensor({n, f}, dtype()),
                          .y = tensor({n, f}, dtype()),
                          .exact = true};
      if (with_bias) args.bias = upload(random_values(f, 5, 1, dtype()), {f}, dtype());
      matmul_gelu(ctx_, args);
      const TensorView x = tensor({n, f}, dtype()), y = tensor({n, f}, dtype());
      matmul(ctx_, {.a = args.a, .b = args.b, .c = x, .transpose_b = true, .bias = args.bias});
      expect_close(download(args.x), download(x), epsilon_of(dtype()), "x");
      activation_forward(ctx_, {.kind = Activation::gelu_tanh, .x = args.x, .y = Operand(y)});
      expect_same_bits(download(args.y), download(y), "y");
    }
  }
}

TEST_P(NarrowMatmulGeluTest, BackwardIsItsTwoParts) {
  for (const auto& [n, k, f] : kNarrow) {
    const ArenaScope scope(ctx_.persistent);
    const MatmulGeluGradArgs args{.a = matrix(n, k, 1),
                                  .b = matrix(k, f, 2),
                                  .x = matrix(n, f, 3),
                                  .dx = tensor({n, f}, dtype()),
                                  .y = tensor({n, f}, dtype())};
    matmul_gelu_backward(ctx_, args);
    const TensorView dy = tensor({n, f}, dtype()), dx = tensor({n, f}, dtype()), y = tensor({n, f}, dtype());
    matmul(ctx_, {.a = args.a, .b = args.b, .c = dy});
    activation_backward(ctx_, {.kind = Activation::gelu_tanh, .x = args.x, .dy = dy, .dx = dx, .y = Operand(y)});
    expect_close(download(args.dx), download(dx), 2 * epsilon_of(dtype()), "dx");
    expect_same_bits(download(args.y), download(y), "y");
    if (!matmul_gelu_backward_can_overwrite(ctx_, args)) continue;
    MatmulGeluGradArgs over = args;
    over.dx = args.x;
    matmul_gelu_backward(ctx_, over);
    expect_same_bits(download(over.x), download(args.dx), "dx over x");
    expect_same_bits(download(over.y), download(y), "y beside it");
  }
}

// Rows that are parts of wider ones, whose other columns stay as they are.
TEST_P(NarrowMatmulGeluTest, TakesStridedViews) {
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
  const MatmulGeluArgs args{
      .a = a, .b = matrix(f, k + 24, 2).slice_cols(0, k), .x = part(3), .y = part(4), .exact = true};
  const auto beside_x = around(args.x), beside_y = around(args.y);
  matmul_gelu(ctx_, args);
  expect_same_bits(around(args.x), beside_x, "beside x");
  expect_same_bits(around(args.y), beside_y, "beside y");
  const TensorView x = tensor({n, f}, dtype()), y = tensor({n, f}, dtype());
  matmul(ctx_, {.a = a, .b = args.b, .c = x, .transpose_b = true});
  expect_close(download(args.x), download(x), epsilon_of(dtype()), "x");
  activation_forward(ctx_, {.kind = Activation::gelu_tanh, .x = args.x, .y = Operand(y)});
  expect_same_bits(download(args.y), download(y), "y");

  const MatmulGeluGradArgs gradient{
      .a = a, .b = matrix(k, f + 8, 5).slice_cols(8, 8 + f), .x = args.x, .dx = part(6), .y = part(7)};
  const auto beside_dx = around(gradient.dx), beside_again = around(gradient.y);
  matmul_gelu_backward(ctx_, gradient);
  expect_same_bits(around(gradient.dx), beside_dx, "beside dx");
  expect_same_bits(around(gradient.y), beside_again, "beside y again");
  const TensorView dy = tensor({n, f}, dtype()), dx = tensor({n, f}, dtype());
  matmul(ctx_, {.a = a, .b = gradient.b, .c = dy});
  activation_backward(ctx_, {.kind = Activation::gelu_tanh, .x = args.x, .dy = dy, .dx = dx});
  expect_close(download(gradient.dx), download(dx), 2 * epsilon_of(dtype()), "dx");
  expect_same_bits(download(gradient.y), download(y), "y again");
}

// Without y the kernel is another one.
TEST_P(NarrowMatmulGeluTest, BackwardWithoutItsOutputIsTheSame) {
  for (const auto& [n, k, f] : kNarrow) {
    const ArenaScope scope(ctx_.persistent);
    MatmulGeluGradArgs args{.a = matrix(n, k, 1),
                            .b = matrix(k, f, 2),
                            .x = matrix(n, f, 3),
                            .dx = tensor({n, f}, dtype()),
                            .y = tensor({n, f}, dtype())};
    if (!matmul_gelu_backward_can_overwrite(ctx_, args)) GTEST_SKIP() << "two ops here";
    matmul_gelu_backward(ctx_, args);
    const std::vector<float> expected = download(args.dx);
    args.y = {};
    args.dx = tensor({n, f}, dtype());
    matmul_gelu_backward(ctx_, args);
    expect_same_bits(download(args.dx), expected, "dx");
    args.dx = args.x;
    matmul_gelu_backward(ctx_, args);
    expect_same_bits(download(args.dx), expected, "dx over x");
  }
}

TEST_P(MatmulGeluTest, OnPaperScratchIsAsInTheRun) {
  const MatmulGeluGradArgs args{.a = matrix(kN, kK, 1),
                                .b = matrix(kK, kF, 2),
                                .x = matrix(kN, kF, 3),
                                .dx = tensor({kN, kF}, dtype()),
                                .dbias = tensor({kF}, DType::fp32)};
  matmul_gelu_backward(ctx_, args);
  ExecContext paper;
  paper.device = ctx_.device;
  paper.dry = true;
  matmul_gelu_backward(paper, args);
  EXPECT_EQ(paper.scratch.high_water(), ctx_.scratch.high_water());
}

INSTANTIATE_TEST_SUITE_P(Ops, MatmulGeluTest, testing::ValuesIn(all_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, NarrowMatmulGeluTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
