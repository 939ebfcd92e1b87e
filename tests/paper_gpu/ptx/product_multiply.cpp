// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a warpgroup's products.
#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/matrix_units.h"
#include "paper_gpu/ptx/product.h"

namespace gradmill::paper::ptx {
namespace {

template <class E>
constexpr int kDepth = int{kChunksOfDepth} * E::kCount;

template <class E>
void take_left(const OpenProduct& product, const uint8_t* shared, const ProductChunks& chunks,
               LeftSteps<kDepth<E>>& left) {
  const uint8_t flags = product.instruction->flags;
  if (flags & kLeftTransposed) {
    constexpr uint32_t kLineChunks = kWarpRows / E::kCount;
    for (uint32_t n = 0; n < chunks.num_left; ++n) {
      E::widen(shared + chunks.left[n], &left.at[n / kLineChunks][n % kLineChunks * E::kCount]);
    }
  } else if (flags & kLeftInRegisters) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(product.left_values.data());
    left.template take_registers<E>([&](int n) { return bytes + n * kLanes * 4; });
  } else {
    alignas(32) float rows[kWarpRows][kDepth<E>];
    for (uint32_t n = 0; n < chunks.num_left; ++n) {
      E::widen(shared + chunks.left[n], &rows[n / kChunksOfDepth][n % kChunksOfDepth * E::kCount]);
    }
    left.take_rows(rows);
  }
  if (bool(flags & kNegateLeft) == bool(flags & kNegateRight)) return;
  for (auto& step : left.at) {
    for (float& value : step) value = -value;
  }
}

// The right operand as stored: columns with all steps of k or, transposed, steps of k with all columns.
template <class E, bool kTransposed>
struct Right {
  static constexpr size_t kStep = kTransposed ? size_t{kMostColumns} : size_t{kDepth<E>};  // between lines
  alignas(32) float values[kMostColumns * kDepth<E>];

  Right(const uint8_t* shared, const ProductChunks& chunks, uint32_t columns) {
    const uint32_t line_chunks = kTransposed ? columns / E::kCount : kChunksOfDepth;
    const uint32_t* from = chunks.right;
    float* to = values;
    for (uint32_t line = 0; line < chunks.num_right / line_chunks; ++line, to += kStep) {
      for (uint32_t n = 0; n < line_chunks; ++n) E::widen(shared + *from++, to + n * E::kCount);
    }
  }
  const float* at(int k, uint32_t column) const {
    return kTransposed ? values + size_t(k) * kStep + column : values + column * kStep + k;
  }
};

// Four columns, every second one from `first` on, to two registers: register 4n + r has the rows from 8 (r / 2) on and
// the columns from 8n + r % 2 on.
template <int kSteps, class Right>
void multiply_four(Warp& warp, const OpenProduct& product, const LeftSteps<kSteps>& left, const Right& right,
                   uint32_t first) {
  FourColumns total = {}, part;
  for (int block = 0; block < kSteps; block += kBlock) {
    multiply_block(
        left, [&](int k, uint32_t column) { return right.at(k, first + column); }, block, part);
    for (int half = 0; half < 2; ++half) {
      for (int t = 0; t < 4; ++t) total[half][t] = _mm256_add_ps(total[half][t], part[half][t]);
    }
  }
  for (uint32_t half = 0; half < 2; ++half) {
    auto* const d = warp.at<float>(product.instruction->list[first / 8 * 4 + 2 * half + first % 2]);
    for_each_part(total[half], [&](int lane, __m256 sums) {
      if (product.add) sums = _mm256_add_ps(_mm256_loadu_ps(d + lane), sums);
      _mm256_storeu_ps(d + lane, sums);
    });
  }
}

template <int kSteps, class Right>
void multiply_columns(Warp& warp, const OpenProduct& product, const LeftSteps<kSteps>& left, const Right& right) {
  const uint32_t columns = shape_of(*product.instruction).columns;
  for (uint32_t first = 0; first < columns; first += 8) {
    multiply_four(warp, product, left, right, first);
    multiply_four(warp, product, left, right, first + 1);
  }
}

template <class L, class R>
void multiply_as(Warp& warp, const OpenProduct& product, const ProductChunks& chunks) {
  const uint8_t* const shared = warp.block->shared;
  const uint32_t columns = shape_of(*product.instruction).columns;
  LeftSteps<kDepth<L>> left;
  take_left<L>(product, shared, chunks, left);
  if (product.instruction->flags & kRightTransposed) {
    multiply_columns(warp, product, left, Right<R, true>(shared, chunks, columns));
  } else {
    multiply_columns(warp, product, left, Right<R, false>(shared, chunks, columns));
  }
}

// By Instruction::kind.
using X = EightBitElements<E4M3>;
using Y = EightBitElements<E5M2>;
using Multiply = void (*)(Warp&, const OpenProduct&, const ProductChunks&);
constexpr Multiply kMultiply[] = {multiply_as<HalfElements, HalfElements>,
                                  multiply_as<BrainElements, BrainElements>,
                                  multiply_as<TensorFloatElements, TensorFloatElements>,
                                  multiply_as<X, X>,
                                  multiply_as<X, Y>,
                                  multiply_as<Y, X>,
                                  multiply_as<Y, Y>};

}  // namespace

void multiply(Warp& warp, const OpenProduct& product, const ProductChunks& chunks) {
  kMultiply[product.instruction->kind](warp, product, chunks);
  if (Counts* const counts = grid_of(warp).counts) {
    const Shape shape = shape_of(*product.instruction);
    counts->matrix_flops += 2ull * kWarpRows * shape.columns * shape.depth;
  }
}

}  // namespace gradmill::paper::ptx
