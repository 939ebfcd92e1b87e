// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the matrix units, for 16 rows by 8 columns of results at a time. A vector has eight rows of a
// column: the left operand is transposed to this layout, and the elements of the right one are broadcast.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "paper_gpu/ptx/elements.h"

namespace gradmill::paper::ptx {

inline constexpr int kMatrixRows = 16, kVectorRows = 8;

// Transposes a matrix of eight rows and eight columns.
inline void transpose(const float* from, size_t from_step, float* to, size_t to_step) {
  __m256 row[8], pair[8], four[8];
  for (size_t n = 0; n < 8; ++n) row[n] = _mm256_loadu_ps(from + n * from_step);
  for (size_t n = 0; n < 8; n += 2) {
    pair[n] = _mm256_unpacklo_ps(row[n], row[n + 1]);
    pair[n + 1] = _mm256_unpackhi_ps(row[n], row[n + 1]);
  }
  for (size_t n = 0; n < 8; n += 4) {
    four[n] = _mm256_shuffle_ps(pair[n], pair[n + 2], 0x44);
    four[n + 1] = _mm256_shuffle_ps(pair[n], pair[n + 2], 0xee);
    four[n + 2] = _mm256_shuffle_ps(pair[n + 1], pair[n + 3], 0x44);
    four[n + 3] = _mm256_shuffle_ps(pair[n + 1], pair[n + 3], 0xee);
  }
  for (size_t n = 0; n < 4; ++n) {
    _mm256_storeu_ps(to + n * to_step, _mm256_permute2f128_ps(four[n], four[n + 4], 0x20));
    _mm256_storeu_ps(to + (n + 4) * to_step, _mm256_permute2f128_ps(four[n], four[n + 4], 0x31));
  }
}

// The left operand: all rows for each step of k.
template <int kDepth>
struct LeftSteps {
  alignas(32) float at[std::max(kDepth, kVectorRows)][kMatrixRows];

  void take_rows(const float (&rows)[kMatrixRows][std::max(kDepth, kVectorRows)]) {
    for (int row = 0; row < kMatrixRows; row += kVectorRows) {
      for (int k = 0; k < kDepth; k += kVectorRows) {
        transpose(&rows[row][k], std::size(rows[0]), &at[k][row], kMatrixRows);
      }
    }
  }
  // In a register, lane 4g + t has neighbouring elements of row g, so that its lanes are eight rows of 16 bytes.
  // Registers are ordered by groups of eight rows, then by 16 bytes of k. registers(n) returns the bytes of one.
  template <class E, class Registers>
  void take_registers(Registers&& registers) {
    alignas(32) float rows[kMatrixRows][std::max(kDepth, kVectorRows)];
    for (int n = 0; n < 2 * kDepth / E::kCount; ++n) {
      const uint8_t* const bytes = registers(n);
      for (int g = 0; g < 8; ++g) E::widen(bytes + 16 * g, &rows[g + n % 2 * 8][n / 2 * E::kCount]);
    }
    take_rows(rows);
  }
};

// The products of one block of k for columns 0, 2, 4 and 6 after the first, by half of the rows and by column.
using FourColumns = __m256[2][4];

// right(k, column) returns the address of that element.
template <int kDepth, class Right>
inline void multiply_block(const LeftSteps<kDepth>& left, Right&& right, int first, FourColumns& sums) {
  for (auto& half : sums) {
    for (__m256& column : half) column = _mm256_setzero_ps();
  }
  constexpr int kSteps = std::min(kBlock, kDepth);
  for (int n = 0; n < kSteps; ++n) {
    const float* const rows = left.at[first + n];
    const __m256 lower = _mm256_load_ps(rows), upper = _mm256_load_ps(rows + kVectorRows);
    for (int t = 0; t < 4; ++t) {
      const __m256 factor = _mm256_broadcast_ss(right(first + n, 2 * t));
      sums[0][t] = _mm256_fmadd_ps(lower, factor, sums[0][t]);
      sums[1][t] = _mm256_fmadd_ps(upper, factor, sums[1][t]);
    }
  }
}

// Four columns of eight rows in the layout of a register: lane 4g + t has row g of column t. Calls visit(first lane,
// eight lanes).
template <class Visit>
inline void for_each_part(const __m256 (&columns)[4], Visit&& visit) {
  const __m256 a = _mm256_unpacklo_ps(columns[0], columns[1]), b = _mm256_unpackhi_ps(columns[0], columns[1]),
               c = _mm256_unpacklo_ps(columns[2], columns[3]), d = _mm256_unpackhi_ps(columns[2], columns[3]);
  const __m256 first = _mm256_shuffle_ps(a, c, 0x44), second = _mm256_shuffle_ps(a, c, 0xee),
               third = _mm256_shuffle_ps(b, d, 0x44), fourth = _mm256_shuffle_ps(b, d, 0xee);
  visit(0, _mm256_permute2f128_ps(first, second, 0x20));
  visit(8, _mm256_permute2f128_ps(third, fourth, 0x20));
  visit(16, _mm256_permute2f128_ps(first, second, 0x31));
  visit(24, _mm256_permute2f128_ps(third, fourth, 0x31));
}

}  // namespace gradmill::paper::ptx
