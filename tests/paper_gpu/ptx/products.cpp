// SPDX-License-Identifier: Apache-2.0
// Products by a warpgroup: wgmma of 64 rows, of which each warp has 16. They are done when they are waited for, or at
// once.
#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "paper_gpu/ptx/access.h"
#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/elements.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/tensor_map.h"

namespace gradmill::paper::ptx {
namespace {

constexpr int kWarpRows = 16, kMostColumns = 256, kMostDepth = 32;
constexpr uint32_t kChunk = 16;  // bytes

// flags
constexpr uint8_t kLeftInRegisters = 1, kLeftTransposed = 2, kRightTransposed = 8, kNegateLeft = 16, kNegateRight = 32;

// A matrix in shared memory as a descriptor describes it.
struct Matrix {
  uint32_t address, leading, stride, row_bytes;  // bytes; row_bytes: of a swizzled row, or 0

  explicit Matrix(uint64_t bits)
      : address(uint32_t(bits & 0x3fff) << 4),
        leading(uint32_t(bits >> 16 & 0x3fff) << 4),
        stride(uint32_t(bits >> 32 & 0x3fff) << 4) {
    constexpr uint32_t kRowBytes[] = {0, 128, 64, 32};
    row_bytes = kRowBytes[bits >> 62];
  }
  // Of the chunk that begins at row `mn` (of the result) and step k; `per` elements have 16 bytes. As it lies: a chunk
  // has elements along k.
  uint32_t along_depth(uint32_t mn, uint32_t k, uint32_t per) const {
    if (row_bytes == 0) return address + mn / 8 * stride + k / per * leading + mn % 8 * kChunk;
    return swizzled(address + mn / 8 * stride + mn % 8 * row_bytes + k / per * kChunk, row_bytes);
  }
  // Transposed: a chunk has elements along mn.
  uint32_t along_rows(uint32_t mn, uint32_t k, uint32_t per) const {
    if (row_bytes == 0) return address + mn / per * stride + k / 8 * leading + k % 8 * kChunk;
    const uint32_t panel = row_bytes / kChunk * per;
    return swizzled(address + mn / panel * leading + k / 8 * stride + k % 8 * row_bytes + mn % panel / per * kChunk,
                    row_bytes);
  }
};

// What an instruction multiplies.
struct Shape {
  int columns, depth, per;  // per: elements in 16 bytes
};
Shape shape_of(const Instruction& i) {
  return {static_cast<int>(i.offset), static_cast<int>(i.target) & 0xff, static_cast<int>(i.target >> 8)};
}

// visit(address, mn, k) for each chunk of rows [first, first + count).
template <class Visit>
void for_each_chunk(const Matrix& matrix, bool transposed, const Shape& shape, int first, int count, Visit&& visit) {
  const auto per = static_cast<uint32_t>(shape.per);
  if (transposed) {
    for (int k = 0; k < shape.depth; ++k) {
      for (int mn = first; mn < first + count; mn += shape.per)
        visit(matrix.along_rows(uint32_t(mn), uint32_t(k), per), mn - first, k);
    }
  } else {
    for (int mn = first; mn < first + count; ++mn) {
      for (int k = 0; k < shape.depth; k += shape.per)
        visit(matrix.along_depth(uint32_t(mn), uint32_t(k), per), mn - first, k);
    }
  }
}

// visit(address, mn, k) for each chunk of shared memory that the warp's part of a product reads.
template <class Visit>
void for_each_operand(Warp& warp, const Instruction& i, uint64_t left, uint64_t right, Visit&& visit) {
  const Shape shape = shape_of(i);
  const int first = kWarpRows * static_cast<int>(warp.index % 4);
  if (!(i.flags & kLeftInRegisters)) {
    for_each_chunk(Matrix(left), i.flags & kLeftTransposed, shape, first, kWarpRows, visit);
  }
  for_each_chunk(Matrix(right), i.flags & kRightTransposed, shape, 0, shape.columns, visit);
}

void check_operands(Warp& warp, const Instruction& i, uint64_t left, uint64_t right) {
  Block& block = *warp.block;
  const SharedShadow::Access access = access_of(warp, 0);
  const bool checking = checks(warp);
  for_each_operand(warp, i, left, right, [&](uint32_t at, int, int) {
    if (uint64_t{at} + kChunk > block.shared_bytes) {
      fail(warp, 1,
           fmt::format("a product reads {:#x} of shared memory, of which the block has {} bytes", at,
                       block.shared_bytes));
    }
    if (!checking) return;
    if (!block.shadow.reads_clean(access, at, kChunk)) fail(warp, 1, block.shadow.describe(access, at, kChunk, false));
    expect_fenced(warp, block, at, kChunk, 0, "a product is to");
  });
}

// They have been read until now: who writes there must wait for what this warp says from here on.
void note_operands(Warp& warp, const Instruction& i, uint64_t left, uint64_t right) {
  if (!checks(warp)) return;
  SharedShadow& shadow = warp.block->shadow;
  const SharedShadow::Access access = access_of(warp, SharedShadow::kByUnits);
  for_each_operand(warp, i, left, right, [&](uint32_t at, int, int) {
    if (!shadow.reads_clean(access, at, kChunk)) {
      fail(warp, 1, "a product has not been waited for: " + shadow.describe(access, at, kChunk, false));
    }
    shadow.note_read(access, at, kChunk);
  });
}

using Values = float[kMostDepth][kMostColumns];

template <class E>
void widen_left(Warp& warp, const OpenProduct& product, float (&a)[kWarpRows][kMostDepth]) {
  const Instruction& i = *product.instruction;
  const Shape shape = shape_of(i);
  if (i.flags & kLeftInRegisters) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(product.left_values.data());
    for (int r = 0; r < 4; ++r) {
      for (int g = 0; g < 8; ++g) E::widen(bytes + (r * 8 + g) * 16, &a[g + r % 2 * 8][r / 2 * E::kCount]);
    }
    return;
  }
  const bool transposed = i.flags & kLeftTransposed;
  const int first = kWarpRows * static_cast<int>(warp.index % 4);
  float values[E::kCount];
  for_each_chunk(Matrix(product.left), transposed, shape, first, kWarpRows, [&](uint32_t at, int row, int k) {
    E::widen(warp.block->shared + at, values);
    for (int n = 0; n < E::kCount; ++n) (transposed ? a[row + n][k] : a[row][k + n]) = values[n];
  });
}

template <class E>
void widen_right(Warp& warp, const OpenProduct& product, Values& b) {
  const bool transposed = product.instruction->flags & kRightTransposed;
  const Shape shape = shape_of(*product.instruction);
  float values[E::kCount];
  for_each_chunk(Matrix(product.right), transposed, shape, 0, shape.columns, [&](uint32_t at, int column, int k) {
    E::widen(warp.block->shared + at, transposed ? &b[k][column] : values);
    for (int n = 0; n < E::kCount && !transposed; ++n) b[k + n][column] = values[n];
  });
}

// list: the sums, then the left operand where it is in registers. Register 4n + r of lane 4g + t: row g + 8 (r / 2),
// column 8n + 2t + r % 2.
void add_to_sums(Warp& warp, const OpenProduct& product, const float (&sum)[kWarpRows][kMostColumns]) {
  const int registers = shape_of(*product.instruction).columns / 2;
  for (int r = 0; r < registers; ++r) {
    auto* const d = warp.at<float>(product.instruction->list[size_t(r)]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const float value = sum[lane / 4 + r / 2 % 2 * 8][8 * (r / 4) + 2 * (lane % 4) + r % 2];
      d[lane] = product.add ? d[lane] + value : value;
    }
  }
}

template <class Left, class Right>
void multiply(Warp& warp, const OpenProduct& product) {
  const Instruction& i = *product.instruction;
  const Shape shape = shape_of(i);
  alignas(64) static float a[kWarpRows][kMostDepth], sum[kWarpRows][kMostColumns];
  alignas(64) static Values b;
  widen_left<Left>(warp, product, a);
  widen_right<Right>(warp, product, b);
  const float sign = bool(i.flags & kNegateLeft) != bool(i.flags & kNegateRight) ? -1.0f : 1.0f;
  for (int row = 0; row < kWarpRows; ++row) {
    for (int first = 0; first < shape.columns; first += 8) {
      float total[8] = {};
      for (int block = 0; block < shape.depth; block += kBlock) {
        float part[8] = {};
        for (int k = block; k < std::min(block + kBlock, shape.depth); ++k) {
          for (int n = 0; n < 8; ++n) part[n] = std::fma(sign * a[row][k], b[k][first + n], part[n]);
        }
        for (int n = 0; n < 8; ++n) total[n] += part[n];
      }
      std::memcpy(&sum[row][first], total, sizeof(total));
    }
  }
  add_to_sums(warp, product, sum);
  if (Counts* const counts = grid_of(warp).counts) {
    counts->matrix_flops +=
        2ull * kWarpRows * static_cast<uint64_t>(shape.columns) * static_cast<uint64_t>(shape.depth);
  }
}

// By Instruction::kind.
using Multiply = void (*)(Warp&, const OpenProduct&);
using X = EightBitElements<E4M3>;
using Y = EightBitElements<E5M2>;
constexpr Multiply kMultiply[] = {multiply<HalfElements, HalfElements>,
                                  multiply<BrainElements, BrainElements>,
                                  multiply<TensorFloatElements, TensorFloatElements>,
                                  multiply<X, X>,
                                  multiply<X, Y>,
                                  multiply<Y, X>,
                                  multiply<Y, Y>};
constexpr std::string_view kTypes[][2] = {{"f16", "f16"},   {"bf16", "bf16"}, {"tf32", "tf32"}, {"e4m3", "e4m3"},
                                          {"e4m3", "e5m2"}, {"e5m2", "e4m3"}, {"e5m2", "e5m2"}};

// Marks registers as used by products under way, or takes the marks back.
void mark_registers(Warp& warp, const OpenProduct& product, bool in_use) {
  const Instruction& i = *product.instruction;
  const auto sums = static_cast<size_t>(shape_of(i).columns / 2);
  for (size_t n = 0; n < i.list.size(); ++n) {
    uint8_t& mark = warp.in_flight[(i.list[n] & ~1u) / (kLanes * 4)];
    mark = in_use ? static_cast<uint8_t>(mark | (n < sums ? 2 : 1)) : uint8_t{0};
  }
}

void finish(Warp& warp, OpenProduct& product) {
  note_operands(warp, *product.instruction, product.left, product.right);
  if (!product.done) kMultiply[product.instruction->kind](warp, product);
}

void start_product(Warp& warp, const Instruction& i, uint32_t mask) {
  if (mask != kAllLanes) fail(warp, mask, "a product by a part of a warp");
  if (!warp.products_fenced && checks(warp)) {
    fail(warp, mask, "a product uses registers that were written after the last wgmma.fence");
  }
  OpenProduct product{&i, 0, warp.at<uint64_t>(i.b)[0], {}, true, false};
  if (i.flags & kLeftInRegisters) {
    for (size_t n = i.list.size() - 4; n < i.list.size(); ++n) {
      const auto* const values = warp.at<uint32_t>(i.list[n]);
      product.left_values.insert(product.left_values.end(), values, values + kLanes);
    }
  } else {
    product.left = warp.at<uint64_t>(i.a)[0];
  }
  product.add = i.c == kNoSlot || (warp.predicates[i.c] & 1) != 0;
  check_operands(warp, i, product.left, product.right);
  if (grid_of(warp).arrives_now()) {
    kMultiply[i.kind](warp, product);
    product.done = true;
  }
  mark_registers(warp, product, true);
  ++warp.products_in_flight;
  warp.open_products.push_back(std::move(product));
}

void commit_products(Warp& warp, const Instruction&, uint32_t) {
  warp.product_groups.push_back(std::move(warp.open_products));
  warp.open_products.clear();
}

// offset: groups that may still be under way.
void wait_for_products(Warp& warp, const Instruction& i, uint32_t) {
  finish_products(warp, static_cast<size_t>(i.offset));
}

void fence_products(Warp& warp, const Instruction&, uint32_t) { warp.products_fenced = true; }

// 64 of "m64n64k16".
int number_after(std::string_view shape, char letter) {
  const size_t at = shape.find(letter, 1) + 1;
  int value = 0;
  std::from_chars(shape.data() + at, shape.data() + shape.size(), value);
  return value;
}

bool decode_product(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  const std::string_view left_type = s.parts[s.parts.size() - 2], right_type = s.parts.back();
  int kind = -1;
  for (size_t n = 0; n < std::size(kTypes); ++n) {
    if (kTypes[n][0] == left_type && kTypes[n][1] == right_type) kind = static_cast<int>(n);
  }
  if (kind < 0 || !s.has("f32")) return false;
  std::string_view shape;
  for (const std::string_view part : s.parts) {
    if (part.starts_with("m64n")) shape = part;
  }
  const int columns = number_after(shape, 'n'), depth = number_after(shape, 'k');
  i.run = start_product;
  i.kind = static_cast<uint8_t>(kind);
  i.offset = columns;
  const uint32_t per = left_type == "tf32" ? 4 : left_type.starts_with('e') ? 16 : 8;
  i.target = static_cast<uint32_t>(depth) | per << 8;
  const Operand &sums = decoder.operand(0), &left = decoder.operand(1), &right = decoder.operand(2);
  for (const Operand& part : sums.parts) {
    i.list.push_back(kNoSlot);
    decoder.update(static_cast<int32_t>(i.list.size() - 1), part, false);
  }
  const bool in_registers = left.kind == Operand::Kind::list;
  if (in_registers) {
    i.flags |= kLeftInRegisters;
    decoder.read_list(left, false);
  } else {
    decoder.read(kA, left, true);
  }
  decoder.read(kB, right, true);
  // scale-d, scale-a, scale-b, then what is transposed.
  const Operand& scale = decoder.operand(3);
  if (scale.is_number()) {
    if (scale.value == 0) throw std::runtime_error("a product that never adds must say so by a predicate");
  } else {
    decoder.predicate(i.c, scale);
  }
  if (decoder.size() > 4 && static_cast<int64_t>(decoder.operand(4).value) < 0) i.flags |= kNegateLeft;
  if (decoder.size() > 5 && static_cast<int64_t>(decoder.operand(5).value) < 0) i.flags |= kNegateRight;
  size_t at = 6;
  if (!in_registers && at < decoder.size() && decoder.operand(at++).value != 0) i.flags |= kLeftTransposed;
  if (at < decoder.size() && decoder.operand(at).value != 0) i.flags |= kRightTransposed;
  return true;
}

}  // namespace

void finish_products(Warp& warp, size_t left) {
  while (warp.product_groups.size() > left) {
    for (OpenProduct& product : warp.product_groups.front()) {
      finish(warp, product);
      mark_registers(warp, product, false);
      --warp.products_in_flight;
    }
    warp.product_groups.pop_front();
  }
  // Registers that later products use, too.
  for (const auto& group : warp.product_groups) {
    for (const OpenProduct& product : group) mark_registers(warp, product, true);
  }
  for (const OpenProduct& product : warp.open_products) mark_registers(warp, product, true);
}

void check_products(Warp& warp, const Instruction& i, uint32_t mask) {
  if (i.writes_operand) warp.products_fenced = false;
  if (warp.products_in_flight == 0) return;
  uint8_t marks = 0;
  for (const uint32_t reg : i.of_operands) marks |= warp.in_flight[reg];
  if (!(marks & 2) && !(marks != 0 && i.writes_operand)) return;
  warp.current = &i;
  fail(warp, mask, "a register of a product that has not been waited for is used");
}

bool decode_products(Decoder& decoder) {
  const Statement& s = decoder.s;
  if (s.parts[0] != "wgmma") return false;
  Instruction& i = decoder.i;
  i.of_products = true;
  i.flow = Flow::collective;
  const std::string_view what = s.parts.at(1);
  if (what == "fence") {
    i.run = fence_products;
  } else if (what == "commit_group") {
    i.run = commit_products;
  } else if (what == "wait_group") {
    i.run = wait_for_products;
    i.offset = static_cast<int64_t>(decoder.operand(0).value);
  } else {
    return what == "mma_async" && decode_product(decoder);
  }
  return true;
}

}  // namespace gradmill::paper::ptx
