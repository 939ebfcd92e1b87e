// SPDX-License-Identifier: Apache-2.0
// Products of a warpgroup: wgmma with 64 rows, 16 per warp. They are performed when they are waited for, or
// immediately.
#include <fmt/format.h>

#include <charconv>

#include "paper_gpu/ptx/access.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/product.h"

namespace gradmill::paper::ptx {
namespace {

// The kinds of products, by Instruction::kind.
constexpr std::string_view kTypes[][2] = {{"f16", "f16"},   {"bf16", "bf16"}, {"tf32", "tf32"}, {"e4m3", "e4m3"},
                                          {"e4m3", "e5m2"}, {"e5m2", "e4m3"}, {"e5m2", "e5m2"}};

// Whether the whole part was delivered by one barrier's copies at one time, and the warp knows it. This is the usual
// case.
bool is_known_tile(const Warp& warp, const SharedShadow::Access& access, const OperandPlace::Block& block) {
  return warp.block->shadow.is_known_tile(access, block.from, block.to - block.from);
}

void check_operand(Warp& warp, const OperandPlace& place) {
  Block& block = *warp.block;
  const SharedShadow::Access access{warp.actor, 0, warp.known, warp.lanes_met};
  const bool checking = checks(warp);
  place.for_each_block([&](const OperandPlace::Block& part) {
    if (part.to <= block.shared_bytes && (!checking || is_known_tile(warp, access, part))) return;
    place.for_each_chunk(part, [&](uint32_t at, uint32_t, uint32_t) {
      if (uint64_t{at} + kChunk > block.shared_bytes) {
        fail(warp, 1,
             fmt::format("a product reads {:#x} of shared memory, of which the block has {} bytes", at,
                         block.shared_bytes));
      }
      if (!checking) return;
      if (!block.shadow.reads_clean(access, at, kChunk))
        fail(warp, 1, block.shadow.describe(access, at, kChunk, false));
      expect_fenced(warp, block, at, kChunk, 0, "a product is to");
    });
  });
}

void check_operands(Warp& warp, const OpenProduct& product) {
  if (!(product.instruction->flags & kLeftInRegisters)) check_operand(warp, left_place(warp, product));
  check_operand(warp, right_place(product));
}

// The operands have been read until now: a writer must wait for what this warp releases from here on.
void note_operand(Warp& warp, const OperandPlace& place, const uint32_t* chunks, uint32_t num_chunks) {
  SharedShadow& shadow = warp.block->shadow;
  const SharedShadow::Access access{warp.actor, SharedShadow::kByUnits, warp.known, warp.lanes_met};
  place.for_each_block([&](const OperandPlace::Block& part) {
    if (is_known_tile(warp, access, part)) return;
    place.for_each_chunk(part, [&](uint32_t at, uint32_t, uint32_t) {
      if (shadow.reads_clean(access, at, kChunk)) return;
      fail(warp, 1, "a product has not been waited for: " + shadow.describe(access, at, kChunk, false));
    });
  });
  shadow.note_chunks(access, chunks, num_chunks);
}

void note_operands(Warp& warp, const OpenProduct& product, const ProductChunks& chunks) {
  if (!checks(warp)) return;
  if (chunks.num_left != 0) note_operand(warp, left_place(warp, product), chunks.left, chunks.num_left);
  note_operand(warp, right_place(product), chunks.right, chunks.num_right);
}

// Marks registers as used by pending products, or removes the marks.
void mark_registers(Warp& warp, const OpenProduct& product, bool in_use) {
  const Instruction& i = *product.instruction;
  const auto sums = size_t{shape_of(i).columns / 2};
  for (size_t n = 0; n < i.list.size(); ++n) {
    uint8_t& mark = warp.in_flight[(i.list[n] & ~1u) / (kLanes * 4)];
    mark = in_use ? static_cast<uint8_t>(mark | (n < sums ? 2 : 1)) : uint8_t{0};
  }
}

void finish(Warp& warp, OpenProduct& product) {
  const ProductChunks chunks(warp, product);
  note_operands(warp, product, chunks);
  if (!product.done) multiply(warp, product, chunks);
}

void multiply_now(Warp& warp, OpenProduct& product) {
  if (!product.done) multiply(warp, product, ProductChunks(warp, product));
  product.done = true;
}

// The products of a warpgroup are performed in the order in which they were started.
void multiply_open(Warp& warp) {
  for (auto& group : warp.product_groups) {
    for (OpenProduct& product : group) multiply_now(warp, product);
  }
  for (OpenProduct& product : warp.open_products) multiply_now(warp, product);
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
  check_operands(warp, product);
  if (grid_of(warp).arrives_now()) {
    multiply_open(warp);
    multiply_now(warp, product);
  }
  mark_registers(warp, product, true);
  ++warp.products_in_flight;
  warp.open_products.push_back(std::move(product));
}

void commit_products(Warp& warp, const Instruction&, uint32_t) {
  warp.product_groups.push_back(std::move(warp.open_products));
  warp.open_products.clear();
}

// offset: number of groups that may still be in flight.
void wait_for_products(Warp& warp, const Instruction& i, uint32_t) {
  finish_products(warp, static_cast<size_t>(i.offset));
}

void fence_products(Warp& warp, const Instruction&, uint32_t) { warp.products_fenced = true; }

// Returns 64 for "m64n64k16".
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
  // scale-d, scale-a, scale-b, then the transpositions.
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
  // Registers that later products use as well.
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
