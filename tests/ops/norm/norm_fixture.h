// SPDX-License-Identifier: Apache-2.0
// The forward and backward of a norm on random values, for the tests of both and of ops fused with them.
#pragma once

#include "ops/norm/norm.h"
#include "support/op_test.h"

namespace gradmill::test {

inline constexpr int64_t kRows = 37, kCols = 45;  // multiples of no tile size

struct Problem {
  NormArgs forward;
  NormGradArgs backward;
};

class NormTest : public OpTest {
 protected:
  // The same values for every dtype: rounded to the test's dtype, then stored as `type`.
  Problem make(NormKind kind, DType type, const Shape& shape = {kRows, kCols}) {
    const int64_t rows = shape[0], cols = shape[1];
    const auto matrix = [&](uint32_t seed) {
      return upload(random_values(rows * cols, seed, 2, dtype()), shape, type);
    };
    const auto vector = [&](uint32_t seed) { return upload(random_values(cols, seed, 1, dtype()), {cols}, type); };
    const bool layer = kind == NormKind::layer;
    Problem s;
    s.forward = {.kind = kind,
                 .x = matrix(1),
                 .delta = matrix(2),
                 .weight = vector(3),
                 .bias = layer ? vector(4) : TensorView{},
                 .sum = tensor(shape, type),
                 .mean = layer ? tensor({rows}, DType::fp32) : TensorView{},
                 .rstd = tensor({rows}, DType::fp32),
                 .y = Operand(tensor(shape, type)),
                 .eps = 1e-5f,
                 .weight_offset = layer ? 0.0f : 1.0f};
    s.backward = {.kind = kind,
                  .sum = s.forward.sum,
                  .mean = s.forward.mean,
                  .rstd = s.forward.rstd,
                  .weight = s.forward.weight,
                  .dy = matrix(5),
                  .dresidual = {},
                  .dx = tensor(shape, type),
                  .dweight = tensor({cols}, DType::fp32),
                  .dbias = layer ? tensor({cols}, DType::fp32) : TensorView{},
                  .weight_offset = s.forward.weight_offset};
    return s;
  }
};

// Covers every distribution of a row over a GPU's threads, in 16-bit types and in fp32. 45 and 16400 columns use the
// kernels for any width.
inline const Shape kShapes[] = {{kRows, kCols}, {5000, 8},    {kRows, 64}, {9, 128},   {7, 192},
                                {9, 256},       {kRows, 384}, {9, 512},    {21, 768},  {21, 896},
                                {kRows, 1024},  {7, 1536},    {19, 1800},  {19, 2048}, {19, 3072},
                                {19, 4096},     {11, 6144},   {9, 8192},   {5, 12288}, {3, 16400}};

}  // namespace gradmill::test
