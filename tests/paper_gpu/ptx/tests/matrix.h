// SPDX-License-Identifier: Apache-2.0
// Matrices for the tests of products: element types, and which lane holds which elements.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "paper_gpu/ptx/tests/exact.h"
#include "paper_gpu/ptx/tests/kernel.h"

namespace gradmill::paper::ptx::test {

struct Element {
  std::string name;
  int bits;
  uint32_t (*encoded)(double);
  // How much less accurate sums of its products are on a GPU than those of f32.
  double looseness = 1;
};
inline const Element kOfF16{"f16", 16, [](double a) { return uint32_t{round_as<F16>(a).bits}; }};
inline const Element kOfBf16{"bf16", 16, [](double a) { return uint32_t{round_as<Bf16>(a).bits}; }};
inline const Element kOfTf32{
    "tf32", 32, [](double a) { return std::bit_cast<uint32_t>(as<float>(rounded(a, kTf32, Rounding::rn))); }};
inline const Element kOfE4m3{"e4m3", 8, [](double a) { return uint32_t{encode_e4m3(rounded(a, kE4m3, Rounding::rn))}; },
                             1024};
inline const Element kOfE5m2{"e5m2", 8, [](double a) { return encode(rounded(a, kE5m2, Rounding::rn), 5, 2); }, 1024};

struct Matrix {
  size_t rows, columns;
  std::vector<double> values = std::vector<double>(rows * columns);
  double& operator()(size_t row, size_t column) { return values[row * columns + column]; }
  double operator()(size_t row, size_t column) const { return values[row * columns + column]; }
};

// Sums of such products are exact in f32: multiples of a quarter, up to 1.5. All formats can represent them.
inline Matrix small_matrix(size_t rows, size_t columns) {
  Matrix matrix{rows, columns};
  for (double& each : matrix.values) each = (static_cast<double>(random_bits() % 7) - 3) / 2;
  return matrix;
}
// Random values of different magnitudes that the format represents exactly.
inline Matrix random_matrix(size_t rows, size_t columns, const Format& format) {
  Matrix matrix{rows, columns};
  for (double& each : matrix.values) {
    const double mantissa = static_cast<double>(random_bits() >> 11) * 0x1p-53 * 2 - 1;
    each = rounded(std::ldexp(mantissa, static_cast<int>(random_bits() % 5) - 2), format, Rounding::rn);
  }
  return matrix;
}

// One element of a * b + c, and the sum of the absolute values of its terms. b has one row per k.
struct Sum {
  double value, magnitude;
};
inline Sum dot(const Matrix& a, const Matrix& b, double c, size_t row, size_t column) {
  Sum sum{c, std::abs(c)};
  for (size_t k = 0; k < a.columns; ++k) {
    const double product = a(row, k) * b(k, column);
    sum.value += product;
    sum.magnitude += std::abs(product);
  }
  return sum;
}

struct At {
  size_t row, column;
};
// The elements of mma operands: element i of a lane's register. Registers of A continue 8 rows down, then to the right.
inline At place_in_a(size_t lane, size_t number, size_t i, int bits) {
  const size_t each = 32 / static_cast<size_t>(bits);
  return {lane / 4 + 8 * (number % 2), lane % 4 * each + i + 4 * each * (number / 2)};
}
inline At place_in_b(size_t lane, size_t number, size_t i, int bits) {
  const size_t each = 32 / static_cast<size_t>(bits);
  return {lane % 4 * each + i + 4 * each * number, lane / 4};
}
// Value i of a lane; those of wgmma continue to the right, 8 columns at a time.
inline At place_in_c(size_t lane, size_t i) { return {lane / 4 + 8 * (i / 2 % 2), lane % 4 * 2 + i % 2 + 8 * (i / 4)}; }

// The fragments of 32 lanes as words.
template <class Place>
std::vector<uint32_t> fragments(const Matrix& matrix, size_t num_registers, const Element& element, Place place) {
  const size_t each = 32 / static_cast<size_t>(element.bits);
  std::vector<uint32_t> words(32 * num_registers);
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t number = 0; number < num_registers; ++number) {
      for (size_t i = 0; i < each; ++i) {
        const At at = place(lane, number, i, element.bits);
        const uint32_t bits = element.encoded(matrix(at.row, at.column))
                              << (i * static_cast<size_t>(element.bits) % 32);
        words[lane * num_registers + number] |= bits;
      }
    }
  }
  return words;
}

}  // namespace gradmill::paper::ptx::test
