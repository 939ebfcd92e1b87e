// SPDX-License-Identifier: Apache-2.0
// FP8 in the paper cuBLASLt: its results, and what each GPU supports.
#include <algorithm>

#include "paper_gpu/cublaslt_test_support.h"

namespace gradmill::paper {
namespace {

constexpr cublasStatus_t kTaken = CUBLAS_STATUS_SUCCESS, kRefused = CUBLAS_STATUS_NOT_SUPPORTED;

class Fp8Test : public CublasLtTest {
 protected:
  // The status of a GEMM that every GPU with FP8 supports.
  cublasStatus_t usual() const { return capability_ >= 89 ? kTaken : kRefused; }
};

// A GEMM in the only layout that every GPU supports, and the settings that tests change.
struct Fp8Product {
  cudaDataType a_type = CUDA_R_8F_E4M3, b_type = CUDA_R_8F_E4M3, c_type = CUDA_R_16BF, d_type = CUDA_R_16BF;
  bool turn_a = true, turn_b = false;
  int64_t m = 32, n = 16, k = 48, gap = 0;
  uint32_t alignment = 16;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType scale_type = CUDA_R_32F;
  cudaDataType bias_type = CUDA_R_32I;  // none

  cublasStatus_t ask() const {
    const Matrix a(a_type, turn_a ? k : m, turn_a ? m : k, gap), b(b_type, turn_b ? n : k, turn_b ? k : n, gap);
    const Matrix c(c_type, m, n), d(d_type, m, n), bias(CUDA_R_32F, m, 1);
    Call call(a, turn_a, b, turn_b, c, d, compute, scale_type);
    call.promise(alignment);
    if (bias_type != CUDA_R_32I) {
      call.set_epilogue(CUBLASLT_EPILOGUE_BIAS);
      call.set_bias(bias);
      call.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{bias_type});
    }
    return call.ask();
  }
};

TEST_F(Fp8Test, NeedsAdaOrNewer) { EXPECT_EQ(Fp8Product().ask(), usual()); }

TEST_F(Fp8Test, LayoutsByGeneration) {
  for (const bool turn_a : {false, true}) {
    for (const bool turn_b : {false, true}) {
      const bool tn = turn_a && !turn_b;
      const Fp8Product product{.turn_a = turn_a, .turn_b = turn_b};
      EXPECT_EQ(product.ask(), only_tn_ && !tn ? kRefused : usual()) << turn_a << turn_b;
    }
  }
}

TEST_F(Fp8Test, TypesOfOperandsAndResults) {
  constexpr cudaDataType e4m3 = CUDA_R_8F_E4M3, e5m2 = CUDA_R_8F_E5M2, bf16 = CUDA_R_16BF, fp16 = CUDA_R_16F,
                         fp32 = CUDA_R_32F;
  const auto ask = [](cudaDataType a, cudaDataType b, cudaDataType c, cudaDataType d) {
    return Fp8Product{.a_type = a, .b_type = b, .c_type = c, .d_type = d}.ask();
  };
  for (const cudaDataType a : {e4m3, e5m2}) {
    for (const cudaDataType b : {e4m3, e5m2}) {
      const bool wide = a == e5m2 && b == e5m2, narrow = a == e4m3 && b == e4m3;
      for (const cudaDataType type : {bf16, fp16, fp32}) EXPECT_EQ(ask(a, b, type, type), wide ? kRefused : usual());
      for (const cudaDataType c : {bf16, fp16}) {
        EXPECT_EQ(ask(a, b, c, e4m3), wide ? kRefused : usual());
        EXPECT_EQ(ask(a, b, c, e5m2), wide || narrow ? kRefused : usual());
      }
    }
  }
  EXPECT_EQ(ask(e4m3, e4m3, fp32, e4m3), kRefused);
  EXPECT_EQ(ask(e4m3, e4m3, e4m3, e4m3), kRefused);
  EXPECT_EQ(ask(e4m3, e4m3, bf16, fp32), kRefused);
  EXPECT_EQ(ask(e4m3, bf16, bf16, bf16), kRefused);
}

TEST_F(Fp8Test, SizesAlignmentAndComputeTypes) {
  EXPECT_EQ(Fp8Product{.n = 5}.ask(), usual());
  EXPECT_EQ(Fp8Product{.gap = 16}.ask(), usual());
  EXPECT_EQ((Fp8Product{.m = 24}.ask()), kRefused);
  EXPECT_EQ((Fp8Product{.k = 40, .gap = 8}.ask()), kRefused);
  EXPECT_EQ((Fp8Product{.gap = 8}.ask()), kRefused);
  EXPECT_EQ((Fp8Product{.alignment = 8}.ask()), kRefused);
  EXPECT_EQ((Fp8Product{.compute = CUBLAS_COMPUTE_16F}.ask()), kRefused);
  EXPECT_EQ((Fp8Product{.compute = CUBLAS_COMPUTE_32F_FAST_TF32}.ask()), kRefused);
  EXPECT_EQ((Fp8Product{.scale_type = CUDA_R_16F}.ask()), kRefused);
  const Matrix whole(CUDA_R_8F_E4M3, 16, 64), b(CUDA_R_8F_E4M3, 16, 16, 0, 2), d(CUDA_R_16BF, 16, 16, 0, 2);
  const auto ask = [&](int64_t step) {
    const Matrix a(whole, 16, 16, step, 2);
    return Call(a, true, b, false, d, d).ask();
  };
  EXPECT_EQ(ask(16 * 16), usual());
  EXPECT_EQ(ask(16 * 16 + 8), kRefused);
}

TEST_F(Fp8Test, TypesOfBiases) {
  const auto ask = [](cudaDataType c, cudaDataType d, cudaDataType bias) {
    return Fp8Product{.c_type = c, .d_type = d, .bias_type = bias}.ask();
  };
  for (const cudaDataType d : {CUDA_R_16BF, CUDA_R_32F}) {
    EXPECT_EQ(ask(d, d, CUDA_R_16BF), usual());
    EXPECT_EQ(ask(d, d, CUDA_R_16F), kRefused);
    EXPECT_EQ(ask(d, d, CUDA_R_32F), kRefused);
  }
  EXPECT_EQ(ask(CUDA_R_16F, CUDA_R_16F, CUDA_R_16F), usual());
  EXPECT_EQ(ask(CUDA_R_16F, CUDA_R_16F, CUDA_R_16BF), kRefused);
  EXPECT_EQ(ask(CUDA_R_16F, CUDA_R_8F_E4M3, CUDA_R_16F), usual());
  EXPECT_EQ(ask(CUDA_R_16BF, CUDA_R_8F_E4M3, CUDA_R_16BF), usual());
}

TEST_F(Fp8Test, ScalesBelongToFp8) {
  const Matrix a(CUDA_R_16BF, 16, 16), b(CUDA_R_16BF, 16, 16), d(CUDA_R_16BF, 16, 16);
  const DeviceFloat scale(2);
  for (const auto which : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
                           CUBLASLT_MATMUL_DESC_AMAX_D_POINTER}) {
    Call call(a, true, b, false, d, d);
    call.set(which, scale.pointer());
    EXPECT_EQ(call.ask(), CUBLAS_STATUS_INVALID_VALUE);
  }
  const Matrix x(CUDA_R_8F_E4M3, 16, 16), y(CUDA_R_8F_E4M3, 16, 16);
  Call call(x, true, y, false, d, d);
  call.set(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, scale.pointer());
  EXPECT_EQ(call.ask(), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(Fp8Test, ScalesAreAlignedOnHopper) {
  const Matrix a(CUDA_R_8F_E4M3, 16, 16), b(CUDA_R_8F_E4M3, 16, 16), d(CUDA_R_16BF, 16, 16);
  const Matrix scales(CUDA_R_32F, 8, 1);
  Call call(a, true, b, false, d, d);
  call.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales.at(0, 4, 0));
  EXPECT_EQ(call.ask(), usual());
  call.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales.at(0, 1, 0));
  EXPECT_EQ(call.ask(), capability_ == 90 ? kRefused : usual());
}

// d = scale_d · (alpha · scale_a · scale_b · a · b + beta · scale_c · c + bias), and amax before scale_d.
TEST_F(Fp8Test, ScalesBiasAndAmax) {
  if (usual() != kTaken) GTEST_SKIP() << "no FP8";
  const cudaDataType pairs[][2] = {
      {CUDA_R_8F_E4M3, CUDA_R_8F_E4M3}, {CUDA_R_8F_E5M2, CUDA_R_8F_E4M3}, {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2}};
  for (const auto& pair : pairs) {
    for (const cudaDataType type : {CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_8F_E4M3, CUDA_R_8F_E5M2}) {
      const bool narrow = bytes_of(type) == 1;
      if (type == CUDA_R_8F_E5M2 && pair[0] == pair[1]) continue;
      const cudaDataType c_type = narrow ? CUDA_R_16F : type;
      const Matrix a(pair[0], 48, 32, 16), b(pair[1], 48, 7), c(c_type, 32, 7), d(type, 32, 7, 16);
      const Matrix bias(c_type == CUDA_R_16F ? CUDA_R_16F : CUDA_R_16BF, 32, 1);
      a.fill(Quarters(21));
      b.fill(Quarters(22));
      c.fill(Quarters(23));
      bias.fill([next = Quarters(24)]() mutable { return next() - 20; });  // so that amax belongs to a negative number
      const DeviceFloat scale_a(0.5f), scale_b(4), scale_c(0.25f), scale_d(0.125f), amax;
      Call call(a, true, b, false, c, d);
      call.set_epilogue(CUBLASLT_EPILOGUE_BIAS);
      call.set_bias(bias);
      call.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale_a.pointer());
      call.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale_b.pointer());
      call.set(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, scale_c.pointer());
      if (narrow) call.set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, scale_d.pointer());
      if (narrow) call.set(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, amax.pointer());
      ASSERT_EQ(call.run(0.5f, 2), kTaken);
      double largest = 0;
      const auto expected = [&](int32_t item, int64_t row, int64_t col) {
        const double sum = dot(a, true, b, false, item, row, col);
        const double before = sum + 0.5 * c.value(item, row, col) + bias.value(item, row, 0);
        largest = std::max(largest, std::fabs(before));
        return narrow ? before / 8 : before;
      };
      expect_result(d, expected);
      if (!narrow) continue;
      EXPECT_EQ(why_not_read(reinterpret_cast<uint64_t>(amax.pointer()), sizeof(float)), "");
      EXPECT_EQ(*amax.pointer(), largest);
    }
  }
}

TEST_F(Fp8Test, GeluWithAuxThatIsNotFp8) {
  const Matrix a(CUDA_R_8F_E4M3, 16, 16), b(CUDA_R_8F_E5M2, 16, 8), c(CUDA_R_16BF, 16, 8), d(CUDA_R_8F_E4M3, 16, 8);
  const Matrix narrow(CUDA_R_8F_E4M3, 16, 8), aux(CUDA_R_16BF, 16, 8);
  a.fill(Quarters(27));
  b.fill(Quarters(28));
  const DeviceFloat scale(0.25f);
  Call call(a, true, b, false, c, d);
  call.set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, scale.pointer());
  call.set_epilogue(CUBLASLT_EPILOGUE_GELU_AUX);
  call.set_aux(narrow);
  EXPECT_EQ(call.ask(), kRefused);
  call.set_aux(aux);
  EXPECT_EQ(call.run(), usual());
  if (usual() != kTaken) return;
  const auto before = [&](int32_t item, int64_t row, int64_t col) { return dot(a, true, b, false, item, row, col); };
  expect_result(aux, before);
  expect_result(
      d, [&](int32_t item, int64_t row, int64_t col) { return gelu_reference(before(item, row, col)) / 4; }, 0.07);
}

// Scales are read when the work is done, not when it is enqueued.
TEST_F(Fp8Test, UnwrittenScaleIsAFault) {
  if (usual() != kTaken) GTEST_SKIP() << "no FP8";
  const Matrix a(CUDA_R_8F_E4M3, 16, 16), b(CUDA_R_8F_E4M3, 16, 16), d(CUDA_R_16BF, 16, 16);
  a.fill(Quarters(25));
  b.fill(Quarters(26));
  const DeviceFloat scale;
  Call call(a, true, b, false, d, d);
  call.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale.pointer());
  ASSERT_EQ(call.run(), kTaken);
  EXPECT_TRUE(has_fault(take_faults(), "the scale of a product's second matrix"));
}

TEST_F(Fp8Test, ResultsSaturateAndRoundToEven) {
  if (usual() != kTaken) GTEST_SKIP() << "no FP8";
  const double values[] = {448,     464,     465,    1e6,    -1e30,  57344,   61440,   70000,   0x1p-9,    0x1p-10,
                           0x3p-11, 0x5p-10, 0x1p-6, 1.0625, 1.1875, 0x1p-16, 0x1p-17, 0x3p-18, 0x1.1p-17, 17};
  const Matrix a(CUDA_R_8F_E5M2, 16, 16), b(CUDA_R_8F_E4M3, 16, 1);
  a.fill([] { return 0.0; });
  b.fill([] { return 1.0; });
  for (int64_t i = 0; i < 16; ++i) a.set(0, i, i, i % 2 == 0 ? 1 : -1);
  for (const cudaDataType type : {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2}) {
    for (const double value : values) {
      const Matrix c(CUDA_R_16BF, 16, 1), d(type, 16, 1);
      Call call(a, true, b, false, c, d);
      ASSERT_EQ(call.run(static_cast<float>(value)), kTaken);
      expect_result(d, [&](int32_t, int64_t row, int64_t) { return row % 2 == 0 ? value : -value; });
    }
  }
}

// Every bit pattern as an operand.
TEST_F(Fp8Test, DecodesEveryOperand) {
  if (usual() != kTaken) GTEST_SKIP() << "no FP8";
  for (const cudaDataType type : {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2}) {
    const Matrix a(type, 16, 256), b(CUDA_R_8F_E4M3, 16, 1), d(CUDA_R_32F, 256, 1);
    a.fill([] { return 0.0; });
    b.fill([] { return 1.0; });
    for (int64_t i = 0; i < 256; ++i) *a.at(0, 0, i) = static_cast<std::byte>(i);
    Call call(a, true, b, false, d, d);
    ASSERT_EQ(call.run(), kTaken);
    for (int64_t i = 0; i < 256; ++i) {
      const double is = d.value(0, i, 0), should = a.value(0, 0, i);
      EXPECT_TRUE(is == should || (std::isnan(is) && std::isnan(should))) << i << ": " << is << " != " << should;
    }
  }
}

}  // namespace
}  // namespace gradmill::paper
