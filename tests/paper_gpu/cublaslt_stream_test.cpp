// SPDX-License-Identifier: Apache-2.0
// When the paper cuBLASLt does its work, and what it reads at that time.
#include "paper_gpu/cublaslt_test_support.h"

namespace gradmill::paper {
namespace {

TEST_F(CublasLtTest, NumbersOfTheDeviceAreReadWhenTheWorkIsDone) {
  const Matrix a(CUDA_R_16BF, 16, 8), b(CUDA_R_16BF, 8, 8), d(CUDA_R_16BF, 16, 8);
  a.fill(Quarters(19));
  b.fill(Quarters(20));
  d.fill([] { return 1.0; });
  const DeviceFloat alpha(3), beta(-2);
  Call call(a, false, b, false, d, d);
  ASSERT_EQ(call.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t{CUBLASLT_POINTER_MODE_DEVICE}), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(call.run(alpha.pointer(), beta.pointer()), CUBLAS_STATUS_SUCCESS);
  expect_result(
      d, [&](int32_t item, int64_t row, int64_t col) { return 3 * dot(a, false, b, false, item, row, col) - 2; });
}

TEST_F(CublasLtTest, WorkIsDoneWhenItsTurnHasCome) {
  const Matrix a(CUDA_R_16BF, 16, 8), b(CUDA_R_16BF, 8, 8), d(CUDA_R_16BF, 16, 8);
  Call call(a, false, b, false, d, d);
  ASSERT_EQ(cudaStreamCreateWithFlags(&call.stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(call.ask(), CUBLAS_STATUS_SUCCESS);
  float alpha = 3, beta = 0;
  ASSERT_EQ(call.enqueue(&alpha, &beta, a.data(), d.data()), CUBLAS_STATUS_SUCCESS);
  alpha = 5;  // scalars on the host were read immediately
  EXPECT_NE(why_not_read(reinterpret_cast<uint64_t>(d.data()), sizeof(uint16_t)), "");
  a.fill(Quarters(41));
  b.fill(Quarters(42));
  EXPECT_EQ(cudaStreamSynchronize(call.stream), cudaSuccess);
  expect_result(d, [&](int32_t item, int64_t row, int64_t col) { return 3 * dot(a, false, b, false, item, row, col); });
  EXPECT_EQ(cudaStreamDestroy(call.stream), cudaSuccess);
}

TEST_F(CublasLtTest, GraphsDoTheWorkAtEveryLaunch) {
  const Matrix a(CUDA_R_16BF, 16, 8), b(CUDA_R_16BF, 8, 8), d(CUDA_R_16BF, 16, 8);
  a.fill(Quarters(43));
  b.fill(Quarters(44));
  const DeviceFloat alpha(1), beta(0);
  Call call(a, false, b, false, d, d);
  call.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t{CUBLASLT_POINTER_MODE_DEVICE});
  ASSERT_EQ(call.ask(), CUBLAS_STATUS_SUCCESS);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&call.stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(call.stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(call.enqueue(alpha.pointer(), beta.pointer(), a.data(), d.data()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamEndCapture(call.stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&runnable, graph, 0), cudaSuccess);
  for (const float factor : {2.0f, -4.0f}) {
    *alpha.pointer() = factor;
    EXPECT_EQ(cudaGraphLaunch(runnable, call.stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(call.stream), cudaSuccess);
    expect_result(
        d, [&](int32_t item, int64_t row, int64_t col) { return factor * dot(a, false, b, false, item, row, col); });
  }
  EXPECT_EQ(cudaGraphExecDestroy(runnable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(call.stream), cudaSuccess);
}

}  // namespace
}  // namespace gradmill::paper
