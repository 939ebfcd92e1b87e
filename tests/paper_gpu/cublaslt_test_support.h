// SPDX-License-Identifier: Apache-2.0
// Support for tests of the paper cuBLASLt: matrices in the paper GPU's memory, a reference in double precision, and
// calls of the library. Types are decoded and rounded here by their definition, independently of the code under test.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/shadow.h"

namespace gradmill::paper {

inline size_t bytes_of(cudaDataType type) {
  if (type == CUDA_R_32F) return 4;
  return type == CUDA_R_16BF || type == CUDA_R_16F ? 2 : 1;
}
double decode(cudaDataType type, const void* element);
// The nearest value of the type; of two, the one with an even last bit. FP8 saturates.
double nearest(cudaDataType type, double value);
// `value` must be a value of the type.
void encode(cudaDataType type, double value, void* element);

// Memory that ends exactly after the last requested byte.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes) { EXPECT_EQ(cudaMalloc(&data_, bytes), cudaSuccess); }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// A batch of column-major matrices. Nothing is written between their columns.
struct Matrix {
  Matrix(cudaDataType type_, int64_t rows_, int64_t cols_, int64_t gap = 0, int32_t count_ = 1)
      : type(type_),
        rows(rows_),
        cols(cols_),
        stride(rows_ + gap),
        step(stride * cols + (count_ > 1 ? stride : 0)),
        count(count_) {
    const int64_t last = (count - 1) * step + (cols - 1) * stride + rows;
    memory = std::make_shared<DeviceBytes>(static_cast<size_t>(last) * bytes_of(type));
  }
  // A part of another matrix.
  Matrix(const Matrix& whole, int64_t rows_, int64_t cols_, int64_t step_, int32_t count_)
      : type(whole.type),
        rows(rows_),
        cols(cols_),
        stride(whole.stride),
        step(step_),
        count(count_),
        memory(whole.memory) {}

  void* data() const { return memory->data(); }
  std::byte* at(int32_t item, int64_t row, int64_t col) const {
    return static_cast<std::byte*>(data()) + static_cast<size_t>(item * step + col * stride + row) * bytes_of(type);
  }
  double value(int32_t item, int64_t row, int64_t col) const { return decode(type, at(item, row, col)); }
  void set(int32_t item, int64_t row, int64_t col, double value) const;
  // Sets every element from a function without arguments. The values are rounded to the type.
  void fill(const std::function<double()>& next) const;

  cudaDataType type;
  int64_t rows, cols, stride, step;
  int32_t count;
  std::shared_ptr<DeviceBytes> memory;
};

struct DeviceFloat {
  DeviceFloat() : memory(sizeof(float)) {}
  explicit DeviceFloat(float value) : DeviceFloat() {
    *pointer() = value;
    mark_written(pointer(), sizeof(float));
  }
  float* pointer() const { return static_cast<float*>(memory.data()); }
  DeviceBytes memory;
};

// Sums of products of these values are exact in fp32, and all types can represent them.
class Quarters {
 public:
  explicit Quarters(unsigned seed) : random_(seed) {}
  double operator()() { return (static_cast<double>(random_() % 17) - 8) / 4; }

 private:
  std::mt19937 random_;
};

// One GEMM, described for the library.
class Call {
 public:
  Call(const Matrix& a, bool turn_a, const Matrix& b, bool turn_b, const Matrix& c, const Matrix& d,
       cublasComputeType_t compute = CUBLAS_COMPUTE_32F, cudaDataType scale_type = CUDA_R_32F);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  template <class Value>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t which, const Value& value) {
    return cublasLtMatmulDescSetAttribute(operation_, which, &value, sizeof(value));
  }
  void set_epilogue(cublasLtEpilogue_t epilogue) {
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{epilogue}), CUBLAS_STATUS_SUCCESS);
  }
  void set_bias(const Matrix& bias);
  void set_aux(const Matrix& aux);
  // Sets the alignment of all four matrices.
  void promise(uint32_t alignment);

  // Returns the library's status; `workspace_bytes` is the available workspace.
  cublasStatus_t ask(size_t workspace_bytes = 0);
  // Asks for an algorithm and runs it. In device mode the scalars are device addresses.
  cublasStatus_t run(float alpha = 1, float beta = 0) { return run(&alpha, &beta); }
  cublasStatus_t run(const float* alpha, const float* beta);
  // Uses the algorithm of the last request. This function waits for the result, ...
  cublasStatus_t multiply(const float* alpha, const float* beta, const void* a, void* d, void* workspace = nullptr,
                          size_t workspace_bytes = 0);
  // ... and this one does not.
  cublasStatus_t enqueue(const float* alpha, const float* beta, const void* a, void* d, void* workspace = nullptr,
                         size_t workspace_bytes = 0);

  cudaStream_t stream = nullptr;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulHeuristicResult_t chosen{};

 private:
  const Matrix &a_, &b_, &c_, &d_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layouts_[4]{};
  cublasLtMatmulPreference_t preference_ = nullptr;
};

// The sum over k of op(a)(row, k) · op(b)(k, col).
double dot(const Matrix& a, bool turn_a, const Matrix& b, bool turn_b, int32_t item, int64_t row, int64_t col);

double gelu_reference(double x);
double gelu_slope_reference(double x);

// Checks the result: every element has been written with the expected value, and nothing between the columns.
void expect_result(const Matrix& d, const std::function<double(int32_t item, int64_t row, int64_t col)>& expected,
                   double tolerance = 0);

inline bool has_fault(const std::vector<std::string>& faults, const std::string& part) {
  for (const std::string& each : faults) {
    if (each.find(part) != std::string::npos) return true;
  }
  return false;
}

class CublasLtTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& each : take_faults()) ADD_FAILURE() << each;
  }
  const int capability_ = gpu().compute_capability;
  const bool only_tn_ = capability_ < 100 || capability_ >= 120;
};

}  // namespace gradmill::paper
