// SPDX-License-Identifier: Apache-2.0
// The rounding of the paper cuBLASLt.
#include "paper_gpu/cublaslt_test_support.h"

namespace gradmill::paper {
namespace {

TEST_F(CublasLtTest, Tf32RoundsOperands) {
  const Matrix a(CUDA_R_32F, 16, 16), b(CUDA_R_32F, 16, 8), d(CUDA_R_32F, 16, 8);
  constexpr double kValues[][2] = {{1 + 0x1p-11 + 0x1p-20, 1 + 0x1p-10},
                                   {1 + 0x1p-11, 1},
                                   {1 + 0x3p-11, 1 + 0x1p-9},
                                   {-1 - 0x1p-12, -1},
                                   {0x1.ffffp3, 16}};
  a.fill([] { return 0.0; });
  b.fill([] { return 1.0; });
  for (int64_t i = 0; i < 5; ++i) a.set(0, i, 3, kValues[i][0]);
  Call call(a, false, b, false, d, d, CUBLAS_COMPUTE_32F_FAST_TF32);
  if (capability_ < 80) {
    EXPECT_EQ(call.run(), CUBLAS_STATUS_NOT_SUPPORTED);
    return;
  }
  ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
  expect_result(d, [&](int32_t, int64_t row, int64_t) { return row < 5 ? kValues[row][1] : 0; });
}

TEST_F(CublasLtTest, NarrowResultsAreRoundedAndOverflow) {
  for (const cudaDataType type : {CUDA_R_16BF, CUDA_R_16F}) {
    const std::vector<double> values{1 + 0x1p-8, 1 + 0x3p-8,  1 + 0x1p-11, 1 + 0x3p-11, 65519, 65520,      1e30,
                                     0x1p-24,    0x1.8p-24,   0x1p-25,     0x1.1p-25,   3e-7,  0x1.ffp-15, -65536,
                                     3.39e38,    -0x1.ffp127, 0x1.8p-133,  0x1p-134,    0.1,   -1e-20,     0};
    const auto m = static_cast<int64_t>(values.size());
    // Each result is alpha times a number that both types can represent.
    for (int64_t i = 0; i < m; ++i) {
      const double value = values[static_cast<size_t>(i)];
      const Matrix a(type, 1, 1), b(type, 1, 1), d(type, 1, 1);
      a.set(0, 0, 0, 1);
      b.set(0, 0, 0, 1);
      Call call(a, false, b, false, d, d);
      ASSERT_EQ(call.run(static_cast<float>(value)), CUBLAS_STATUS_SUCCESS);
      expect_result(d, [&](int32_t, int64_t, int64_t) { return double{static_cast<float>(value)}; });
    }
  }
}

TEST_F(CublasLtTest, NansAndInfinitiesPassThrough) {
  const Matrix a(CUDA_R_16F, 2, 1), b(CUDA_R_16F, 1, 1), d(CUDA_R_32F, 2, 1);
  a.set(0, 0, 0, NAN);
  a.set(0, 1, 0, INFINITY);
  b.set(0, 0, 0, -2);
  Call call(a, false, b, false, d, d);
  ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(std::isnan(d.value(0, 0, 0)));
  EXPECT_EQ(d.value(0, 1, 0), -INFINITY);
}

}  // namespace
}  // namespace gradmill::paper
