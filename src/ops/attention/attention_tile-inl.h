// SPDX-License-Identifier: Apache-2.0
// Building blocks of tiled attention on the CPU, shared by forward and backward. The weights of a tile are transposed,
// (keys, queries): a vector has the weights of one key for neighbouring queries. So maxima, sums and masks of the
// softmax need no operations across lanes, and only q and dout must be transposed, once per query tile.
#if defined(GRADMILL_OPS_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADMILL_OPS_ATTENTION_TILE_INL_H_
#undef GRADMILL_OPS_ATTENTION_TILE_INL_H_
#else
#define GRADMILL_OPS_ATTENTION_TILE_INL_H_
#endif

#include <type_traits>

#include "cpu/simd-inl.h"
#include "ops/attention/attention_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {
using namespace attention;

// A tile is processed in patches of kBlock keys × kStrip queries. Patches without a visible element are skipped; the
// others are computed completely, with zeros where the mask hides an element.
inline constexpr int64_t kBlock = 8, kStrip = 16;
static_assert(kAttentionTile % kStrip == 0 && kStrip % kBlock == 0);

inline Range live_queries(const Band& band, int64_t key) {
  const Range range = band.queries_of(key, key + kBlock);
  if (range.empty()) return {};
  return {range.begin / kStrip * kStrip, round_up(range.end, kStrip)};
}
inline Range live_keys(const Band& band, int64_t query) {
  const Range range = band.keys_of(query, query + kStrip);
  if (range.empty()) return {};
  return {range.begin / kBlock * kBlock, std::min(round_up(range.end, kBlock), band.keys)};
}

// Rows and vectors of a register tile. Measured at 93% of the peak with 32 registers; 4 × 4 reaches 75%.
inline constexpr int kTileRows = HWY_TARGET == HWY_AVX2 ? 4 : 8, kTileVectors = 2;

struct Product {
  const float* a;  // (rows, inner), or (inner, rows) if transposed
  int64_t lda;
  const float* b;  // (inner, cols rounded up to whole vectors)
  int64_t ldb;
  float* c;  // (rows, cols)
  int64_t ldc;
  int64_t rows, cols, inner;
  bool accumulate;
};

template <bool kTransposedA, int kRows, int kVectors>
HWY_INLINE void multiply_registers(const Product& p, int64_t row, int64_t col) {
  const auto width = static_cast<int64_t>(lanes());
  Floats sum[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) sum[i][j] = zeros();
  }
  const float* a = p.a + (kTransposedA ? row : row * p.lda);
  const float* b = p.b + col;
  for (int64_t k = 0; k < p.inner; ++k, b += p.ldb) {
    Floats bs[kVectors];
    for (int j = 0; j < kVectors; ++j) bs[j] = load(b + j * width);
    for (int i = 0; i < kRows; ++i) {
      const Floats as = splat(kTransposedA ? a[k * p.lda + i] : a[i * p.lda + k]);
      for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(as, bs[j], sum[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      float* c = p.c + (row + i) * p.ldc + col + j * width;
      const int64_t left = p.cols - col - j * width;
      if (left >= width) {
        store(p.accumulate ? hn::Add(load(c), sum[i][j]) : sum[i][j], c);
      } else {
        const auto count = static_cast<size_t>(left);
        store_partial(p.accumulate ? hn::Add(load_partial(c, count), sum[i][j]) : sum[i][j], c, count);
      }
    }
  }
}

template <bool kTransposedA, int kVectors>
HWY_INLINE void multiply_columns(const Product& p, int64_t col) {
  int64_t row = 0;
  for (; row + kTileRows <= p.rows; row += kTileRows) {
    multiply_registers<kTransposedA, kTileRows, kVectors>(p, row, col);
  }
  for (; row + 2 <= p.rows; row += 2) multiply_registers<kTransposedA, 2, kVectors>(p, row, col);
  if (row < p.rows) multiply_registers<kTransposedA, 1, kVectors>(p, row, col);
}

// c = a · b [+ c].
template <bool kTransposedA>
void multiply(const Product& p) {
  const auto width = static_cast<int64_t>(lanes());
  int64_t col = 0;
  for (; col + width < p.cols; col += kTileVectors * width) multiply_columns<kTransposedA, kTileVectors>(p, col);
  if (col < p.cols) multiply_columns<kTransposedA, 1>(p, col);
}

struct Rows {
  const float* data;
  int64_t stride;
};

// The rows of one head as fp32 in whole vectors: used in place if they already are, otherwise copied to `buffer`.
template <class T>
HWY_INLINE Rows stage_rows(const TensorView& view, Range rows, int64_t head, int64_t head_dim, float* buffer) {
  const T* from = view.row<T>(rows.begin) + head * head_dim;
  const auto width = static_cast<int64_t>(lanes());
  if constexpr (std::is_same_v<T, float>) {
    if (head_dim % width == 0) return {from, view.row_stride};
  }
  const int64_t stride = round_up(head_dim, width);
  float* to = buffer;
  for (int64_t row = rows.begin; row < rows.end; ++row, from += view.row_stride, to += stride) {
    for_each_vector(head_dim, [&](int64_t i, auto in, auto) HWY_ATTR { store(in(from), to + i); });
  }
  return {buffer, stride};
}

// to (head_dim, kAttentionTile) = scale * rowsᵀ. Columns up to a whole strip repeat the last row.
HWY_INLINE void transpose_rows(const Rows& rows, int64_t count, int64_t head_dim, float scale, float* to) {
  const hn::CappedTag<float, 4> d;
  const auto scales = hn::Set(d, scale);
  for (int64_t q = 0; q < round_up(count, kStrip); q += 4) {
    const float* row[4];
    for (int64_t i = 0; i < 4; ++i) row[i] = rows.data + std::min(q + i, count - 1) * rows.stride;
    for (int64_t c = 0; c < head_dim; c += 4) {
      const auto r0 = hn::Mul(scales, hn::LoadU(d, row[0] + c)), r1 = hn::Mul(scales, hn::LoadU(d, row[1] + c));
      const auto r2 = hn::Mul(scales, hn::LoadU(d, row[2] + c)), r3 = hn::Mul(scales, hn::LoadU(d, row[3] + c));
      const auto low02 = hn::InterleaveLower(d, r0, r2), low13 = hn::InterleaveLower(d, r1, r3);
      const auto high02 = hn::InterleaveUpper(d, r0, r2), high13 = hn::InterleaveUpper(d, r1, r3);
      float* column = to + c * kAttentionTile + q;
      hn::StoreU(hn::InterleaveLower(d, low02, low13), d, column);
      hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, column + kAttentionTile);
      hn::StoreU(hn::InterleaveLower(d, high02, high13), d, column + 2 * kAttentionTile);
      hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, column + 3 * kAttentionTile);
    }
  }
}

// scores (keys, queries) = a (keys, head_dim) · b (head_dim, queries), in the visible patches.
HWY_INLINE void multiply_scores(const Band& band, const Rows& a, const float* b, int64_t head_dim, float* scores) {
  for (int64_t key = 0; key < band.keys; key += kBlock) {
    const Range queries = live_queries(band, key);
    if (queries.empty()) continue;
    multiply<false>({.a = a.data + key * a.stride,
                     .lda = a.stride,
                     .b = b + queries.begin,
                     .ldb = kAttentionTile,
                     .c = scores + key * kAttentionTile + queries.begin,
                     .ldc = kAttentionTile,
                     .rows = std::min(kBlock, band.keys - key),
                     .cols = queries.size(),
                     .inner = head_dim,
                     .accumulate = false});
  }
}

// out (queries, head_dim) = weightsᵀ · b (keys, head_dim) [+ out].
HWY_INLINE void multiply_queries(const Band& band, const float* weights, const Rows& b, int64_t head_dim, float* out,
                                 int64_t stride, bool accumulate) {
  for (int64_t query = 0; query < band.queries; query += kBlock) {
    const Range keys = band.keys_of(query, query + kBlock);
    if (keys.empty() && accumulate) continue;
    multiply<true>({.a = weights + keys.begin * kAttentionTile + query,
                    .lda = kAttentionTile,
                    .b = b.data + keys.begin * b.stride,
                    .ldb = b.stride,
                    .c = out + query * stride,
                    .ldc = stride,
                    .rows = std::min(kBlock, band.queries - query),
                    .cols = head_dim,
                    .inner = keys.size(),
                    .accumulate = accumulate});
  }
}

// out (keys, head_dim) += weights · b (queries, head_dim).
HWY_INLINE void multiply_keys(const Band& band, const float* weights, const Rows& b, int64_t head_dim, float* out,
                              int64_t stride) {
  for (int64_t key = 0; key < band.keys; key += kBlock) {
    const Range queries = band.queries_of(key, key + kBlock);
    if (queries.empty()) continue;
    multiply<false>({.a = weights + key * kAttentionTile + queries.begin,
                     .lda = kAttentionTile,
                     .b = b.data + queries.begin * b.stride,
                     .ldb = b.stride,
                     .c = out + key * stride,
                     .ldc = stride,
                     .rows = std::min(kBlock, band.keys - key),
                     .cols = head_dim,
                     .inner = queries.size(),
                     .accumulate = true});
  }
}

// No additional terms: scores come from the contents alone. See forward_tile() and backward_queries().
struct NoTerms {
  template <class... Args>
  HWY_INLINE void add_scores(const Args&...) {}
  template <class... Args>
  HWY_INLINE void add_gradients(const Args&...) {}
};

// 2^x for x <= 0 (and slightly above); 0 from -127 down. Relative error below 2e-7.
HWY_INLINE Floats exp2(Floats x) {
  // Adding 1.5 * 2^23 rounds x to an integer in the lowest bits. At -127 the sum of exponents is 0 and the result is
  // exactly zero, as masked weights must be. The order of Max's operands lets NaN pass.
  const Floats clamped = hn::Max(splat(-127.0f), x), magic = splat(12582912.0f);
  const Floats shifted = hn::Add(clamped, magic);
  const Floats r = hn::Sub(clamped, hn::Sub(shifted, magic));
  Floats power = hn::MulAdd(splat(0.00132647388f), r, splat(0.00967151668f));
  power = hn::MulAdd(power, r, splat(0.05550733753f));
  power = hn::MulAdd(power, r, splat(0.2402224202f));
  power = hn::MulAdd(power, r, splat(0.6931469776f));
  power = hn::MulAdd(power, r, splat(1.0f));
  const hn::RebindToSigned<FloatTag> i32;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(i32, shifted));
  return hn::BitCast(FloatTag(), hn::Add(hn::BitCast(i32, power), exponent));
}

// For a key, the lanes of the queries query, query + 1, … that see it.
class Visible {
 public:
  HWY_INLINE Visible(const Band& band, int64_t query)
      : low_(hn::Iota(FloatTag(), static_cast<float>(query + band.low))),
        high_(hn::Iota(FloatTag(), static_cast<float>(query + band.high))) {
    const auto width = static_cast<int64_t>(lanes());
    all_ = {query + width - 1 + band.low, query + band.high + 1};
  }
  HWY_INLINE bool all(int64_t key) const { return all_.begin <= key && key < all_.end; }
  HWY_INLINE auto lanes_of(int64_t key) const {
    const Floats at = splat(static_cast<float>(key));
    return hn::And(hn::Ge(at, low_), hn::Le(at, high_));
  }

 private:
  Floats low_, high_;
  Range all_;
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#endif
