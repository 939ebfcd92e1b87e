// SPDX-License-Identifier: Apache-2.0
// The copy engine: tiles of tensor maps and runs of bytes, to shared memory and back.
#include <fmt/format.h>

#include <cstring>

#include "paper_gpu/ptx/access.h"
#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/mbarrier.h"
#include "paper_gpu/ptx/tensor_map.h"
#include "paper_gpu/ptx/traffic.h"

namespace gradmill::paper::ptx {
namespace {

// A tile of a tensor map: which of its rows, and which bytes of each, are inside the matrix.
struct Tile {
  static constexpr uint32_t kChunk = 16;

  uint32_t row_bytes, bytes, swizzle;       // per row of the tile, and in total
  uint32_t first_row, end_row, first, end;  // the part inside the matrix
  StoredRows rows;                          // the same in global memory

  Tile(const TensorMap& map, int64_t column, int64_t row)
      : row_bytes(map.row_bytes()), bytes(map.box_bytes()), swizzle(map.swizzle) {
    const int64_t begin = column * int64_t{map.element_bytes};
    const auto matrix_bytes = static_cast<int64_t>(map.sizes[0] * map.element_bytes);
    first = static_cast<uint32_t>(std::clamp<int64_t>(-begin, 0, row_bytes));
    end = static_cast<uint32_t>(std::clamp<int64_t>(matrix_bytes - begin, first, row_bytes));
    first_row = static_cast<uint32_t>(std::clamp<int64_t>(-row, 0, map.box[1]));
    end_row = static_cast<uint32_t>(std::clamp<int64_t>(int64_t(map.sizes[1]) - row, first_row, map.box[1]));
    rows = {map.address + static_cast<uint64_t>((row + first_row) * int64_t(map.stride) + begin + first), map.stride,
            end - first, end == first ? 0 : end_row - first_row};
  }

  bool is_inside() const { return rows.bytes == row_bytes && rows.count * row_bytes == bytes; }
  // Calls visit(address, bytes in the matrix) for each row.
  template <class Visit>
  void for_each_row(Visit&& visit) const {
    for (uint32_t r = 0; r < rows.count; ++r) visit(rows.begin + r * rows.step, rows.bytes);
  }
  // Calls visit(offset in the tile, address, bytes in the matrix) for each chunk of the tile.
  template <class Visit>
  void for_each_chunk(Visit&& visit) const {
    for (uint32_t r = 0; r < rows.count; ++r) {
      const uint32_t at = (first_row + r) * row_bytes;
      const uint64_t address = rows.begin + r * rows.step;
      for (uint32_t c = first, next; c < end; c = next) {
        next = std::min(c / kChunk * kChunk + kChunk, end);
        visit(at + c, address + (c - first), next - c);
      }
    }
  }
  // Copies to a block's shared memory, with zeros outside the matrix.
  void load(uint8_t* shared, uint32_t to) const {
    if (!is_inside()) {
      for (uint32_t at = 0; at < bytes; at += kChunk) {
        std::memset(shared + swizzled(to + at, swizzle), 0, std::min(kChunk, bytes - at));
      }
    }
    for_each_chunk([&](uint32_t at, uint64_t from, uint32_t count) {
      copy(shared + swizzled(to + at, swizzle), reinterpret_cast<const uint8_t*>(from), count);
    });
  }
  void store(const uint8_t* shared, uint32_t from) const {
    for_each_chunk([&](uint32_t at, uint64_t to, uint32_t count) {
      copy(reinterpret_cast<uint8_t*>(to), shared + swizzled(from + at, swizzle), count);
    });
  }

 private:
  static void copy(uint8_t* to, const uint8_t* from, uint32_t count) {
    count == kChunk ? std::memcpy(to, from, kChunk) : std::memcpy(to, from, count);
  }
};

const TensorMap& map_at(Warp& warp, uint64_t address, int lane) {
  const auto* map = reinterpret_cast<const TensorMap*>(address);
  if (address >= kParamWindow && address < kParamWindow + kWindowBytes) {
    map = reinterpret_cast<const TensorMap*>(grid_of(warp).param_begin + (address - kParamWindow));
  } else if (address < kWindowBytes) {
    fail(warp, 1u << lane, "a tensor map that is not there");
  }
  if (reinterpret_cast<uint64_t>(map) % 64 != 0) fail(warp, 1u << lane, "a tensor map that is not aligned to 64 bytes");
  if (map->magic != TensorMap::kMagic) fail(warp, 1u << lane, "a tensor map that was never made");
  return *map;
}

void start_copy(Warp& warp, Block& block, std::function<void()> work) {
  Grid& grid = grid_of(warp);
  if (grid.options.arrival == Arrival::early) return work();
  warp.block->cluster->engine.push_back({&block, std::move(work)});
}

// The destination of a copy in a block's shared memory, and the barrier it signals.
struct Target {
  Block* block;
  uint32_t at, barrier;
};

// These bytes must not be read or written until the barrier's phase has ended.
void reserve(Warp& warp, const Target& target, uint32_t bytes, int lane, MemoryBarrier& barrier) {
  if (uint64_t{target.at} + bytes > target.block->shared_bytes) {
    fail(warp, 1u << lane,
         fmt::format("a copy of {} bytes to {:#x} of shared memory, of which the block has {}", bytes, target.at,
                     target.block->shared_bytes));
  }
  std::memset(target.block->shared + target.at, 0xff, bytes);
  if (Counts* const counts = grid_of(warp).counts) counts->copied_bytes += bytes;
  if (!checks(warp)) return;
  SharedShadow& shadow = target.block->shadow;
  const SharedShadow::Access access = access_of(warp, lane);
  if (!shadow.writes_clean(access, target.at, bytes))
    fail(warp, 1u << lane, shadow.describe(access, target.at, bytes, true));
  expect_not_being_read(warp, *target.block, target.at, bytes, lane);
  if (!barrier.known_to_engine) {
    fail(warp, 1u << lane, "a copy reports to a barrier whose initialisation was not fenced (fence.mbarrier_init)");
  }
  expect_reads_fenced(warp, *target.block, target.at, bytes, lane);
  const SharedShadow::Access engine{barrier.engine, 0, barrier.known};
  shadow.note_write(engine, target.at, bytes, barrier.engine_time);
}

MemoryBarrier& barrier_of(Warp& warp, const Target& target, int lane) {
  const uint32_t own =
      warp.block == target.block ? target.barrier : target.barrier | (target.block->rank + 1) << kRankShift;
  return barrier_at(warp, own, lane);
}

void tell(Block& block, uint32_t barrier, uint32_t bytes) {
  const auto found = block.memory_barriers.find(barrier);
  if (found == block.memory_barriers.end()) throw Finding{"a copy reports to a barrier that has been ended"};
  bytes_arrived(found->second, bytes);
}

uint32_t offset_of(uint32_t address) { return address & ((1u << kRankShift) - 1); }

Tile tile_of(Warp& warp, const Instruction& i, int lane) {
  return {map_at(warp, warp.at<uint64_t>(i.c)[lane], lane), static_cast<int32_t>(warp.at<uint32_t>(i.list[0])[lane]),
          static_cast<int32_t>(warp.at<uint32_t>(i.list[1])[lane])};
}

// a: to, b: barrier, c: map, list: column, row; e: blocks of the cluster; offset and target: of a and b.
void load_tile(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    const Tile tile = tile_of(warp, i, lane);
    uint32_t to = warp.at<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.offset);
    uint32_t barrier = warp.at<uint32_t>(i.b)[lane] + i.target;
    const uint32_t own = block_at(warp, to, lane).rank;
    barrier = offset_of(barrier);
    if (to % 128 != 0) fail(warp, 1u << lane, fmt::format("a tile's place {:#x} is not aligned to 128 bytes", to));
    const uint32_t blocks = i.e != kNoSlot ? warp.at<uint32_t>(i.e)[lane] & 0xffff : 1u << own;
    if (blocks >> warp.block->cluster->blocks.size() != 0)
      fail(warp, 1u << lane, "a tile goes to blocks that the cluster does not have");
    tile.for_each_row([&](uint64_t from, uint32_t bytes) {
      global_to_read(warp, from, bytes, lane);
      count_copied(warp, from, bytes, false);
    });
    for (const auto& block : warp.block->cluster->blocks) {
      if (!(blocks >> block->rank & 1)) continue;
      const Target target{block.get(), to, barrier};
      reserve(warp, target, tile.bytes, lane, barrier_of(warp, target, lane));
      start_copy(warp, *block, [tile, target] {
        tile.load(target.block->shared, target.at);
        tell(*target.block, target.barrier, tile.bytes);
      });
    }
  });
}

// a: to, b: barrier, c: from, e: bytes; list[0] is unused; offset of a, target of b.
void load_bytes(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    uint32_t to = warp.at<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.offset);
    const uint32_t barrier = offset_of(warp.at<uint32_t>(i.b)[lane] + i.target), bytes = warp.at<uint32_t>(i.e)[lane];
    const uint64_t from = warp.at<uint64_t>(i.c)[lane];
    if (to % 16 != 0 || from % 16 != 0 || bytes % 16 != 0) {
      fail(warp, 1u << lane,
           fmt::format("a copy of {} bytes from {:#x} to {:#x}: 16 must divide all", bytes, from, to));
    }
    const Target target{&block_at(warp, to, lane), to, barrier};
    global_to_read(warp, from, bytes, lane);
    count_copied(warp, from, bytes, false);
    reserve(warp, target, bytes, lane, barrier_of(warp, target, lane));
    start_copy(warp, *target.block, [target, from, bytes] {
      std::memcpy(target.block->shared + target.at, reinterpret_cast<const void*>(from), bytes);
      tell(*target.block, target.barrier, bytes);
    });
  });
}

void add_store(Warp& warp, int lane, BulkStore store) {
  const uint32_t from = store.from, bytes = store.bytes;
  if (checks(warp)) {
    Block& block = *warp.block;
    const SharedShadow::Access access = access_of(warp, lane);
    if (!block.shadow.reads_clean(access, from, bytes))
      fail(warp, 1u << lane, block.shadow.describe(access, from, bytes, false));
    expect_fenced(warp, block, from, bytes, lane, "the copy engine is to");
  }
  if (Counts* const counts = grid_of(warp).counts) counts->copied_bytes += bytes;
  if (grid_of(warp).arrives_now()) {
    store.work();
    store.is_done = true;
  }
  warp.open_stores[lane].push_back(std::move(store));
  warp.lanes_with_stores |= 1u << lane;
  ++warp.block->pending_reads;
  ++warp.block->pending_writes;
}

// a: from, c: map, list: column, row.
void store_tile(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    const Tile tile = tile_of(warp, i, lane);
    const uint32_t from = warp.at<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.offset);
    if (from % 128 != 0) fail(warp, 1u << lane, fmt::format("a tile's place {:#x} is not aligned to 128 bytes", from));
    shared_at(warp, from, tile.bytes, lane);
    tile.for_each_row([&](uint64_t to, uint32_t bytes) {
      global_to_write(warp, to, bytes, lane);
      count_copied(warp, to, bytes, true);
    });
    const auto work = [tile, from, block = warp.block] { tile.store(block->shared, from); };
    add_store(warp, lane, {from, tile.bytes, tile.rows, work});
  });
}

// a: from, c: to, e: bytes.
void store_bytes(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    const uint32_t from = warp.at<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.offset),
                   bytes = warp.at<uint32_t>(i.e)[lane];
    const uint64_t to = warp.at<uint64_t>(i.c)[lane];
    if (to % 16 != 0 || from % 16 != 0 || bytes % 16 != 0) {
      fail(warp, 1u << lane,
           fmt::format("a copy of {} bytes from {:#x} to {:#x}: 16 must divide all", bytes, from, to));
    }
    shared_at(warp, from, bytes, lane);
    global_to_write(warp, to, bytes, lane);
    count_copied(warp, to, bytes, true);
    const auto work = [to, from, bytes, block = warp.block] {
      std::memcpy(reinterpret_cast<void*>(to), block->shared + from, bytes);
    };
    add_store(warp, lane, {from, bytes, {to, bytes, bytes, 1}, work});
  });
}

void commit_stores(Warp& warp, const Instruction&, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    warp.store_groups[lane].push_back(std::move(warp.open_stores[lane]));
    warp.open_stores[lane].clear();
  });
}

// offset: number of groups that may still be in flight; kind: waits only for their reads.
void wait_for_stores(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) { finish_stores(warp, lane, static_cast<size_t>(i.offset), i.kind != 0); });
}

// The base register of an address whose offset fits the instruction.
void wide_base(Decoder& decoder, int32_t place, const Operand& operand) {
  int64_t offset = 0;
  Space space = Space::global;
  if (!decoder.address(place, operand, offset, space)) throw std::runtime_error("an address of 32 bits");
  if (offset != 0) throw std::runtime_error("an offset of a copy's global address is not known");
}
uint32_t narrow_base(Decoder& decoder, int32_t place, const Operand& operand) {
  int64_t offset = 0;
  Space space = Space::shared;
  if (decoder.address(place, operand, offset, space)) throw std::runtime_error("an address of 64 bits");
  return static_cast<uint32_t>(offset);
}
void tile_operand(Decoder& decoder, const Operand& operand) {
  wide_base(decoder, kC, operand);
  const Operand& corner = operand.parts.at(1);
  if (corner.parts.size() != 2) throw std::runtime_error("tiles of more or fewer than two dimensions are not known");
  decoder.read_list(corner, false);
}

template <class Visit>
void for_each_store(Block& block, Visit&& visit) {
  for (const Warp& warp : block.warps) {
    for_each_lane(warp.lanes_with_stores, [&](int lane) {
      for (const BulkStore& store : warp.open_stores[lane]) visit(store);
      for (const auto& group : warp.store_groups[lane]) {
        for (const BulkStore& store : group) visit(store);
      }
    });
  }
}

// The copy may have read until now.
void finish_reading(Warp& warp, int lane, BulkStore& store) {
  if (store.has_read) return;
  if (!store.is_done) store.work();
  store.is_done = store.has_read = true;
  --warp.block->pending_reads;
  if (!checks(warp)) return;
  const SharedShadow::Access access = access_of(warp, int(SharedShadow::kByEngine) | lane);
  warp.block->shadow.note_read(access, store.from, store.bytes);
}

}  // namespace

void expect_not_being_read(Warp& warp, Block& block, uint32_t address, uint32_t bytes, int lane) {
  if (block.pending_reads == 0) return;
  for_each_store(block, [&](const BulkStore& store) {
    if (store.has_read || store.from >= address + bytes || address >= store.from + store.bytes) return;
    fail(warp, 1u << lane,
         fmt::format("shared memory at {:#x} is written while a copy from there has not been waited for", address));
  });
}

void expect_not_being_stored(Warp& warp, uint64_t address, uint32_t bytes, int lane) {
  for_each_store(*warp.block, [&](const BulkStore& store) {
    if (!store.to.overlap(address, bytes)) return;
    fail(warp, 1u << lane,
         fmt::format("global memory at {:#x} is used while a copy to there has not been waited for", address));
  });
}

void finish_stores(Warp& warp, int lane, size_t left, bool only_reads) {
  auto& groups = warp.store_groups[lane];
  for (size_t n = 0; n + left < groups.size(); ++n) {
    for (BulkStore& store : groups[n]) finish_reading(warp, lane, store);
  }
  while (!only_reads && groups.size() > left) {
    warp.block->pending_writes -= static_cast<uint32_t>(groups.front().size());
    groups.pop_front();
  }
}

void end_stores(Warp& warp, int lane) {
  if (!(warp.lanes_with_stores >> lane & 1)) return;
  warp.store_groups[lane].push_back(std::move(warp.open_stores[lane]));
  warp.open_stores[lane].clear();
  for (const auto& group : warp.store_groups[lane]) {
    for (const BulkStore& store : group) {
      if (store.has_read || !checks(warp)) continue;
      fail(warp, 1u << lane, "a thread ends before its copy from shared memory has been waited for");
    }
  }
  finish_stores(warp, lane, 0, false);
  warp.lanes_with_stores &= ~(1u << lane);
}

bool decode_bulk_copy(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  if (s.parts[0] == "createpolicy") {
    i.run = [](Warp& warp, const Instruction& at, uint32_t mask) {
      for_lanes(warp.at<uint64_t>(at.d), mask, [](int) { return uint64_t{0}; });
    };
    decoder.write(kD, decoder.operand(0), true);
    return true;
  }
  if (!s.name.starts_with("cp.async.bulk.")) return false;
  if (s.has("commit_group")) {
    i.run = commit_stores;
  } else if (s.has("wait_group")) {
    i.run = wait_for_stores;
    i.offset = static_cast<int64_t>(decoder.operand(0).value);
    i.kind = s.has("read");
  } else if (s.has("bulk_group")) {
    const bool tile = s.has("tensor");
    i.run = tile ? store_tile : store_bytes;
    tile ? tile_operand(decoder, decoder.operand(0)) : wide_base(decoder, kC, decoder.operand(0));
    i.offset = narrow_base(decoder, kA, decoder.operand(1));
    if (!tile) decoder.read(kE, decoder.operand(2), false);
  } else if (s.has("mbarrier::complete_tx::bytes") && s.has("global")) {
    const bool tile = s.has("tensor");
    i.run = tile ? load_tile : load_bytes;
    i.offset = narrow_base(decoder, kA, decoder.operand(0));
    tile ? tile_operand(decoder, decoder.operand(1)) : wide_base(decoder, kC, decoder.operand(1));
    i.target = narrow_base(decoder, kB, decoder.operand(tile ? 2 : 3));
    if (!tile) decoder.read(kE, decoder.operand(2), false);
    if (tile && s.has("multicast::cluster")) decoder.read(kE, decoder.operand(3), false);
  } else {
    return false;
  }
  return true;
}

}  // namespace gradmill::paper::ptx
