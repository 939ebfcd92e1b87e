// SPDX-License-Identifier: Apache-2.0
// The results of the paper cuBLASLt for the types that every GPU supports. PAPER_GPU selects the GPU.
#include <algorithm>

#include "paper_gpu/cublaslt_test_support.h"

namespace gradmill::paper {
namespace {

struct Types {
  cudaDataType operand, result;
};
constexpr Types kTypes[] = {{CUDA_R_32F, CUDA_R_32F},
                            {CUDA_R_16BF, CUDA_R_16BF},
                            {CUDA_R_16BF, CUDA_R_32F},
                            {CUDA_R_16F, CUDA_R_16F},
                            {CUDA_R_16F, CUDA_R_32F}};

struct Transposed {
  bool a, b;
};
constexpr Transposed kTransposed[] = {{false, false}, {true, false}, {false, true}, {true, true}};

Matrix left(cudaDataType type, bool turned, int64_t m, int64_t k, int64_t gap = 0, int32_t count = 1) {
  return turned ? Matrix(type, k, m, gap, count) : Matrix(type, m, k, gap, count);
}
Matrix right(cudaDataType type, bool turned, int64_t n, int64_t k, int64_t gap = 0, int32_t count = 1) {
  return turned ? Matrix(type, n, k, gap, count) : Matrix(type, k, n, gap, count);
}

TEST_F(CublasLtTest, ProductsOfEveryTypeAndTransposition) {
  for (const Types& types : kTypes) {
    for (const Transposed& turned : kTransposed) {
      for (const int64_t gap : {0, 3}) {
        constexpr int64_t m = 37, n = 19, k = 53;
        const Matrix a = left(types.operand, turned.a, m, k, gap), b = right(types.operand, turned.b, n, k, gap);
        const Matrix d(types.result, m, n, gap);
        a.fill(Quarters(1));
        b.fill(Quarters(2));
        Call call(a, turned.a, b, turned.b, d, d);
        ASSERT_EQ(call.run(0.5f), CUBLAS_STATUS_SUCCESS);
        expect_result(d, [&](int32_t item, int64_t row, int64_t col) {
          return 0.5 * dot(a, turned.a, b, turned.b, item, row, col);
        });
      }
    }
  }
}

TEST_F(CublasLtTest, SizesAroundThoseOfTiles) {
  for (const int64_t m : {1, 15, 16, 17, 33}) {
    for (const int64_t n : {1, 5, 6, 7, 12}) {
      for (const int64_t k : {1, 15, 16, 17, 40}) {
        const Matrix a(CUDA_R_16BF, k, m), b(CUDA_R_16BF, k, n), d(CUDA_R_32F, m, n);
        a.fill(Quarters(3));
        b.fill(Quarters(4));
        Call call(a, true, b, false, d, d);
        ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
        expect_result(d,
                      [&](int32_t item, int64_t row, int64_t col) { return dot(a, true, b, false, item, row, col); });
      }
    }
  }
}

TEST_F(CublasLtTest, AddsToWhatTheResultWas) {
  for (const Types& types : kTypes) {
    for (const bool in_place : {false, true}) {
      const Matrix a(types.operand, 24, 16), b(types.operand, 16, 11);
      const Matrix c(types.result, 24, 11, 2), other(types.result, 24, 11, 5), &d = in_place ? c : other;
      a.fill(Quarters(5));
      b.fill(Quarters(6));
      c.fill(Quarters(7));
      std::vector<double> before;
      for (int64_t i = 0; i < 24 * 11; ++i) before.push_back(c.value(0, i % 24, i / 24));
      Call call(a, false, b, false, c, d);
      ASSERT_EQ(call.run(2, -0.5f), CUBLAS_STATUS_SUCCESS);
      expect_result(d, [&](int32_t item, int64_t row, int64_t col) {
        return 2 * dot(a, false, b, false, item, row, col) - 0.5 * before[static_cast<size_t>(col * 24 + row)];
      });
    }
  }
}

TEST_F(CublasLtTest, BatchesWithGaps) {
  for (const Types& types : kTypes) {
    for (const Transposed& turned : kTransposed) {
      const Matrix a = left(types.operand, turned.a, 20, 18, 1, 3), b = right(types.operand, turned.b, 9, 18, 0, 3);
      const Matrix d(types.result, 20, 9, 4, 3);
      a.fill(Quarters(8));
      b.fill(Quarters(9));
      d.fill(Quarters(10));
      Call call(a, turned.a, b, turned.b, d, d);
      ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
      expect_result(
          d, [&](int32_t item, int64_t row, int64_t col) { return dot(a, turned.a, b, turned.b, item, row, col); });
    }
  }
}

// Like the heads in attention: matrices that share the memory of their columns.
TEST_F(CublasLtTest, BatchesSideBySide) {
  constexpr int64_t kSize = 12, kTokens = 10;
  constexpr int32_t kHeads = 3;
  const Matrix queries(CUDA_R_16BF, kSize * kHeads, kTokens), keys(CUDA_R_16BF, kSize * kHeads, kTokens);
  const Matrix results(CUDA_R_16BF, kTokens * kHeads, kTokens);
  queries.fill(Quarters(36));
  keys.fill(Quarters(37));
  const Matrix a(queries, kSize, kTokens, kSize, kHeads), b(keys, kSize, kTokens, kSize, kHeads);
  const Matrix d(results, kTokens, kTokens, kTokens, kHeads);
  Call call(a, true, b, false, d, d);
  ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
  expect_result(d, [&](int32_t item, int64_t row, int64_t col) { return dot(a, true, b, false, item, row, col); });
}

TEST_F(CublasLtTest, BiasAndGelu) {
  for (const Types& types : kTypes) {
    for (const auto epilogue : {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS,
                                CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS}) {
      const Matrix a(types.operand, 16, 21, 0, 2), b(types.operand, 16, 10, 0, 2), d(types.result, 21, 10, 3, 2);
      const Matrix bias(types.result, 21, 1, 0, 2), aux(types.result, 21, 10, 3, 2);
      a.fill([next = Quarters(11)]() mutable { return next() / 8; });
      b.fill(Quarters(12));
      bias.fill(Quarters(13));
      Call call(a, true, b, false, d, d);
      call.set_epilogue(epilogue);
      call.set_bias(bias);
      call.set_aux(aux);
      ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
      const auto before = [&](int32_t item, int64_t row, int64_t col) {
        const double added = epilogue & CUBLASLT_EPILOGUE_BIAS ? bias.value(item, row, 0) : 0;
        return dot(a, true, b, false, item, row, col) + added;
      };
      if (epilogue == CUBLASLT_EPILOGUE_BIAS) {
        expect_result(d, before);
        continue;
      }
      const double tolerance = types.result == CUDA_R_32F ? 2e-6 : types.result == CUDA_R_16F ? 5e-4 : 4e-3;
      const auto after = [&](int32_t item, int64_t row, int64_t col) { return gelu_reference(before(item, row, col)); };
      expect_result(d, after, tolerance);
      if ((epilogue & CUBLASLT_EPILOGUE_GELU_AUX) == CUBLASLT_EPILOGUE_GELU_AUX) expect_result(aux, before);
    }
  }
}

TEST_F(CublasLtTest, GradientOfGelu) {
  for (const Types& types : kTypes) {
    const Matrix a(types.operand, 22, 16), b(types.operand, 16, 10), d(types.result, 22, 10),
        aux(types.result, 22, 10, 2);
    a.fill(Quarters(14));
    b.fill(Quarters(15));
    aux.fill(Quarters(16));
    Call call(a, false, b, false, d, d);
    call.set_epilogue(CUBLASLT_EPILOGUE_DGELU);
    call.set_aux(aux);
    ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
    const double tolerance = types.result == CUDA_R_32F ? 2e-6 : types.result == CUDA_R_16F ? 5e-4 : 4e-3;
    const auto expected = [&](int32_t item, int64_t row, int64_t col) {
      return dot(a, false, b, false, item, row, col) * gelu_slope_reference(aux.value(item, row, col));
    };
    expect_result(d, expected, tolerance);
  }
}

// Sums whose bits depend on the order, of products that are exact in fp32.
TEST_F(CublasLtTest, AddsInBlocksOf16) {
  constexpr int64_t k = 75;
  for (const Types& types : kTypes) {
    const Matrix a(types.operand, k, 3), b(types.operand, k, 2), d(CUDA_R_32F, 3, 2);
    const auto normal = [](unsigned seed) {
      return [random = std::mt19937(seed)]() mutable {
        return nearest(CUDA_R_16BF, std::normal_distribution<double>()(random));
      };
    };
    a.fill(normal(17));
    b.fill(normal(18));
    Call call(a, true, b, false, d, d);
    ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
    expect_result(d, [&](int32_t, int64_t row, int64_t col) {
      float sum = 0;
      for (int64_t begin = 0; begin < k; begin += 16) {
        float block = 0;
        for (int64_t i = begin; i < std::min(k, begin + 16); ++i) {
          block += static_cast<float>(a.value(0, i, row) * b.value(0, i, col));
        }
        sum += block;
      }
      return double{sum};
    });
  }
}

}  // namespace
}  // namespace gradmill::paper
