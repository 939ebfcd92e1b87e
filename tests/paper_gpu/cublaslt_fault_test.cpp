// SPDX-License-Identifier: Apache-2.0
// What the paper cuBLASLt refuses, and what counts as a fault.
#include "paper_gpu/cublaslt_test_support.h"

namespace gradmill::paper {
namespace {

// A valid GEMM of three matrices, which tests make invalid.
class FaultTest : public CublasLtTest {
 protected:
  FaultTest() {
    a_.fill(Quarters(31));
    b_.fill(Quarters(32));
  }
  cublasStatus_t run(Call& call) {
    const float alpha = 1, beta = 0;
    const cublasStatus_t status = call.ask();
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return call.multiply(&alpha, &beta, a_.data(), d_.data());
  }
  const Matrix a_{CUDA_R_16BF, 16, 8}, b_{CUDA_R_16BF, 8, 24}, d_{CUDA_R_16BF, 16, 24, 8};
};

TEST_F(FaultTest, UnwrittenOperands) {
  const Matrix fresh(CUDA_R_16BF, 16, 8);
  fresh.fill(Quarters(33));
  const Matrix partly(CUDA_R_16BF, 8, 24);
  partly.set(0, 0, 0, 1);
  Call call(fresh, false, partly, false, d_, d_);
  EXPECT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
  const std::vector<std::string> faults = take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_TRUE(has_fault(faults, "a product's second matrix"));
  // The work is done nevertheless, so that later steps are not blamed for it.
  EXPECT_EQ(why_not_read(reinterpret_cast<uint64_t>(d_.at(0, 0, 0)), sizeof(uint16_t)), "");
}

TEST_F(FaultTest, ReadsWhatTheResultWasOnlyWithBeta) {
  Call call(a_, false, b_, false, d_, d_);
  EXPECT_EQ(call.run(1, 0), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(faults().empty());
  const Matrix fresh(CUDA_R_16BF, 16, 24, 8);
  Call adding(a_, false, b_, false, fresh, d_);
  EXPECT_EQ(adding.run(1, 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(has_fault(take_faults(), "a product's sum"));
}

TEST_F(FaultTest, UnwrittenBiasAndAux) {
  const Matrix bias(CUDA_R_16BF, 16, 1), aux(CUDA_R_16BF, 16, 24);
  Call call(a_, false, b_, false, d_, d_);
  call.set_epilogue(CUBLASLT_EPILOGUE_BIAS);
  call.set_bias(bias);
  EXPECT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(has_fault(take_faults(), "a product's bias"));
  call.set_epilogue(CUBLASLT_EPILOGUE_DGELU);
  call.set_aux(aux);
  EXPECT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(has_fault(take_faults(), "a product's aux"));
}

TEST_F(FaultTest, ResultsAndAuxThatAreTooShort) {
  const Matrix few(CUDA_R_16BF, 16, 23, 8);
  const float alpha = 1, beta = 0;
  Call call(a_, false, b_, false, d_, d_);
  ASSERT_EQ(call.ask(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(call.multiply(&alpha, &beta, a_.data(), few.data()), CUBLAS_STATUS_SUCCESS);
  std::vector<std::string> found = take_faults();
  EXPECT_EQ(found.size(), 1u);
  EXPECT_TRUE(has_fault(found, "a product's result"));
  EXPECT_EQ(call.multiply(&alpha, &beta, a_.at(0, 8, 0), d_.data()), CUBLAS_STATUS_SUCCESS);
  found = take_faults();
  EXPECT_EQ(found.size(), 1u);
  EXPECT_TRUE(has_fault(found, "a product's first matrix"));
  call.set_epilogue(CUBLASLT_EPILOGUE_GELU_AUX);
  call.set_aux(few);
  EXPECT_EQ(run(call), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(has_fault(take_faults(), "a product's aux"));
}

TEST_F(FaultTest, AmaxThatIsNotThere) {
  if (capability_ < 89) GTEST_SKIP() << "no FP8";
  const Matrix a(CUDA_R_8F_E4M3, 16, 16), b(CUDA_R_8F_E4M3, 16, 16), c(CUDA_R_16BF, 16, 16), d(CUDA_R_8F_E4M3, 16, 16);
  a.fill(Quarters(34));
  b.fill(Quarters(35));
  float on_host = 7;
  Call call(a, true, b, false, c, d);
  call.set(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, &on_host);
  EXPECT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(has_fault(take_faults(), "a product's amax"));
  EXPECT_EQ(on_host, 7);
}

TEST_F(FaultTest, PromisedAlignmentAndWorkspace) {
  Call call(a_, false, b_, false, d_, d_);
  call.promise(16);
  constexpr size_t kNeeded = 1024;
  const DeviceBytes workspace(kNeeded);
  ASSERT_EQ(call.ask(kNeeded), CUBLAS_STATUS_SUCCESS);
  const float alpha = 1, beta = 0;
  void *const a = a_.data(), *const d = d_.data();
  EXPECT_EQ(call.multiply(&alpha, &beta, a, d, workspace.data(), kNeeded), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(faults().empty());
  EXPECT_EQ(call.multiply(&alpha, &beta, a, d, workspace.data(), kNeeded / 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_TRUE(has_fault(take_faults(), "its algorithm needs 1024"));
  call.multiply(&alpha, &beta, a, d, workspace.data(), 2 * kNeeded);
  EXPECT_TRUE(has_fault(take_faults(), "a product's workspace"));
  call.multiply(&alpha, &beta, a, static_cast<std::byte*>(d) + 2, workspace.data(), kNeeded);
  EXPECT_TRUE(has_fault(take_faults(), "a product's result is not aligned to 16 bytes"));
}

TEST_F(FaultTest, AlgorithmsFromElsewhere) {
  Call call(a_, false, b_, false, d_, d_);
  const float alpha = 1, beta = 0;
  call.chosen = {};
  EXPECT_EQ(call.multiply(&alpha, &beta, a_.data(), d_.data()), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_TRUE(has_fault(take_faults(), "not one that the library has chosen"));
}

TEST_F(FaultTest, MatricesThatDoNotFit) {
  const Matrix deep(CUDA_R_16BF, 9, 24), flat(CUDA_R_16BF, 8, 24, 0, 2);
  EXPECT_EQ(Call(a_, false, deep, false, d_, d_).ask(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_TRUE(has_fault(take_faults(), "a product's second matrix is 9 x 24, the others want 8 x 24"));
  EXPECT_EQ(Call(a_, false, flat, false, d_, d_).ask(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_TRUE(has_fault(take_faults(), "batches of 1, 2, 1 and 1"));
  const Matrix overlapping(CUDA_R_16BF, 16, 24, -1);
  EXPECT_EQ(Call(a_, false, b_, false, overlapping, overlapping).ask(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_TRUE(has_fault(take_faults(), "columns of a product's sum overlap"));
}

TEST_F(FaultTest, ResultsOfABatchThatOverlap) {
  const Matrix a(CUDA_R_16BF, 16, 8, 0, 3), b(CUDA_R_16BF, 8, 24, 0, 3), whole(CUDA_R_16BF, 48, 72);
  const auto ask = [&](int64_t step) {
    const Matrix d(whole, 16, 24, step, 3);
    return Call(a, false, b, false, d, d).ask();
  };
  EXPECT_EQ(ask(16), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(ask(48 * 24), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(faults().empty());
  for (const int64_t step : {0, 8, 17, 48 * 23}) {
    EXPECT_EQ(ask(step), CUBLAS_STATUS_INVALID_VALUE) << step;
    EXPECT_TRUE(has_fault(take_faults(), "results of a batch of products overlap"));
  }
}

TEST_F(FaultTest, WhatIsNotOnPaperIsNamed) {
  Call call(a_, false, b_, false, d_, d_);
  EXPECT_NE(call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_DRELU_BGRAD}), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(has_fault(take_faults(), "epilogue 152 of a product is not on paper"));
  EXPECT_NE(call.set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t{4}), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(has_fault(take_faults(), "attribute 15 of a product"));
  EXPECT_NE(call.set(CUBLASLT_MATMUL_DESC_TRANSA, int64_t{1}), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(has_fault(take_faults(), "has 4 bytes, not 8"));
  EXPECT_NE(call.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t{2}), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(has_fault(take_faults(), "scale mode 2"));
  Call half(a_, false, b_, false, d_, d_, CUBLAS_COMPUTE_16F);
  EXPECT_NE(half.ask(), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(has_fault(take_faults(), "compute type 64"));
}

TEST_F(FaultTest, TypesThatDoNotGoTogether) {
  const auto ask = [](cudaDataType a, cudaDataType b, cudaDataType c, cudaDataType d, cublasComputeType_t compute) {
    const Matrix first(a, 16, 16), second(b, 16, 16), sum(c, 16, 16), result(d, 16, 16);
    return Call(first, false, second, false, sum, result, compute).ask();
  };
  constexpr auto fp32 = CUDA_R_32F, bf16 = CUDA_R_16BF, fp16 = CUDA_R_16F;
  constexpr auto refused = CUBLAS_STATUS_NOT_SUPPORTED, plain = CUBLAS_STATUS_SUCCESS;
  EXPECT_EQ(ask(bf16, fp16, bf16, bf16, CUBLAS_COMPUTE_32F), refused);
  EXPECT_EQ(ask(bf16, bf16, fp16, fp16, CUBLAS_COMPUTE_32F), refused);
  EXPECT_EQ(ask(fp32, fp32, bf16, bf16, CUBLAS_COMPUTE_32F), refused);
  EXPECT_EQ(ask(bf16, bf16, fp32, bf16, CUBLAS_COMPUTE_32F), refused);
  EXPECT_EQ(ask(bf16, bf16, bf16, bf16, CUBLAS_COMPUTE_32F_FAST_TF32), refused);
  EXPECT_EQ(ask(bf16, bf16, bf16, bf16, CUBLAS_COMPUTE_32F), plain);
  EXPECT_EQ(ask(fp32, fp32, fp32, fp32, CUBLAS_COMPUTE_32F_FAST_TF32), capability_ >= 80 ? plain : refused);
}

TEST_F(FaultTest, LayoutOfAux) {
  const Matrix even(CUDA_R_16BF, 16, 24, 8), odd(CUDA_R_16BF, 16, 24, 4), wide(CUDA_R_32F, 16, 24);
  for (const auto epilogue : {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_DGELU}) {
    Call call(a_, false, b_, false, d_, d_);
    call.set_epilogue(epilogue);
    call.set_aux(even);
    EXPECT_EQ(call.ask(), CUBLAS_STATUS_SUCCESS);
    call.set_aux(odd);
    EXPECT_EQ(call.ask(), CUBLAS_STATUS_NOT_SUPPORTED);
    call.set_aux(wide);
    EXPECT_EQ(call.ask(), CUBLAS_STATUS_NOT_SUPPORTED);
    call.set_aux(even);
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, even.at(0, 4, 0));
    EXPECT_EQ(call.ask(), CUBLAS_STATUS_NOT_SUPPORTED);
    call.set_aux(even);
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{8});
    EXPECT_EQ(call.ask(), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_TRUE(has_fault(take_faults(), "columns of a product's aux overlap"));
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr);
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{16});
    EXPECT_EQ(call.ask(), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_TRUE(has_fault(take_faults(), "aux, which is not set"));
  }
}

}  // namespace
}  // namespace gradmill::paper
