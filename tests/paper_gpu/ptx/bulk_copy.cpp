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

// A tile's place in its matrix.
struct Corner {
  int64_t column, row;
};

// visit(offset in the tile, address in global memory or 0 outside of the matrix) for each chunk of 16 bytes or less.
template <class Visit>
void for_each_chunk(const TensorMap& map, Corner corner, Visit&& visit) {
  constexpr uint32_t kChunk = 16;
  const uint32_t row_bytes = map.row_bytes();
  const int64_t first_byte = corner.column * int64_t{map.element_bytes};
  const auto end_byte = static_cast<int64_t>(map.sizes[0] * map.element_bytes);
  for (uint32_t r = 0; r < map.box[1]; ++r) {
    const int64_t row = corner.row + r;
    const bool row_inside = row >= 0 && row < static_cast<int64_t>(map.sizes[1]);
    for (uint32_t c = 0; c < row_bytes; c += kChunk) {
      const uint32_t bytes = std::min(kChunk, row_bytes - c);
      const int64_t at = first_byte + c;
      const int64_t inside = !row_inside || at < 0 ? 0 : std::clamp<int64_t>(end_byte - at, 0, bytes);
      visit(r * row_bytes + c, bytes, map.address + static_cast<uint64_t>(row * int64_t(map.stride) + at),
            static_cast<uint32_t>(inside));
    }
  }
}

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

// The place of a copy in a block's shared memory, and the barrier it reports to.
struct Target {
  Block* block;
  uint32_t at, barrier;
};

// Nobody may read or write these bytes until the barrier's phase has ended.
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

// a: to, b: barrier, c: map, list: column, row; e: which blocks of the cluster; offset and target: of a and b.
void load_tile(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    const TensorMap& map = map_at(warp, warp.at<uint64_t>(i.c)[lane], lane);
    const Corner corner{static_cast<int32_t>(warp.at<uint32_t>(i.list[0])[lane]),
                        static_cast<int32_t>(warp.at<uint32_t>(i.list[1])[lane])};
    uint32_t to = warp.at<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.offset);
    uint32_t barrier = warp.at<uint32_t>(i.b)[lane] + i.target;
    const uint32_t own = block_at(warp, to, lane).rank;
    barrier = offset_of(barrier);
    if (to % 128 != 0) fail(warp, 1u << lane, fmt::format("a tile's place {:#x} is not aligned to 128 bytes", to));
    const uint32_t blocks = i.e != kNoSlot ? warp.at<uint32_t>(i.e)[lane] & 0xffff : 1u << own;
    if (blocks >> warp.block->cluster->blocks.size() != 0)
      fail(warp, 1u << lane, "a tile goes to blocks that the cluster does not have");
    for_each_chunk(map, corner, [&](uint32_t, uint32_t, uint64_t from, uint32_t inside) {
      if (inside == 0) return;
      global_to_read(warp, from, inside, lane);
      count_copied(warp, from, inside, false);
    });
    for (const auto& block : warp.block->cluster->blocks) {
      if (!(blocks >> block->rank & 1)) continue;
      const Target target{block.get(), to, barrier};
      reserve(warp, target, map.box_bytes(), lane, barrier_of(warp, target, lane));
      start_copy(warp, *block, [map, corner, target] {
        for_each_chunk(map, corner, [&](uint32_t at, uint32_t bytes, uint64_t from, uint32_t inside) {
          uint8_t* const place = target.block->shared + swizzled(target.at + at, map.swizzle);
          std::memset(place, 0, bytes);
          if (inside != 0) std::memcpy(place, reinterpret_cast<const void*>(from), inside);
        });
        tell(*target.block, target.barrier, map.box_bytes());
      });
    }
  });
}

// a: to, b: barrier, c: from, e: bytes; list[0] is not used; offset of a, target of b.
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
  warp.has_stores = true;
  ++warp.block->pending_reads;
  ++warp.block->pending_writes;
}

// a: from, c: map, list: column, row.
void store_tile(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    const TensorMap& map = map_at(warp, warp.at<uint64_t>(i.c)[lane], lane);
    const Corner corner{static_cast<int32_t>(warp.at<uint32_t>(i.list[0])[lane]),
                        static_cast<int32_t>(warp.at<uint32_t>(i.list[1])[lane])};
    const uint32_t from = warp.at<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.offset);
    if (from % 128 != 0) fail(warp, 1u << lane, fmt::format("a tile's place {:#x} is not aligned to 128 bytes", from));
    shared_at(warp, from, map.box_bytes(), lane);
    for_each_chunk(map, corner, [&](uint32_t, uint32_t, uint64_t to, uint32_t inside) {
      if (inside == 0) return;
      global_to_write(warp, to, inside, lane);
      count_copied(warp, to, inside, true);
    });
    const auto writes_to = [map, corner](uint64_t address, uint32_t bytes) {
      bool found = false;
      for_each_chunk(map, corner, [&](uint32_t, uint32_t, uint64_t to, uint32_t inside) {
        found |= to < address + bytes && address < to + inside;
      });
      return found;
    };
    const auto work = [map, corner, from, block = warp.block] {
      for_each_chunk(map, corner, [&](uint32_t at, uint32_t, uint64_t to, uint32_t inside) {
        if (inside != 0)
          std::memcpy(reinterpret_cast<void*>(to), block->shared + swizzled(from + at, map.swizzle), inside);
      });
    };
    uint64_t low = ~uint64_t{0}, high = 0;
    for_each_chunk(map, corner, [&](uint32_t, uint32_t, uint64_t to, uint32_t inside) {
      if (inside == 0) return;
      low = std::min(low, to);
      high = std::max(high, to + inside);
    });
    add_store(warp, lane, {from, map.box_bytes(), low, high, writes_to, work});
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
    const auto writes_to = [to, bytes](uint64_t address, uint32_t count) {
      return to < address + count && address < to + bytes;
    };
    const auto work = [to, from, bytes, block = warp.block] {
      std::memcpy(reinterpret_cast<void*>(to), block->shared + from, bytes);
    };
    add_store(warp, lane, {from, bytes, to, to + bytes, writes_to, work});
  });
}

void commit_stores(Warp& warp, const Instruction&, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    warp.store_groups[lane].push_back(std::move(warp.open_stores[lane]));
    warp.open_stores[lane].clear();
  });
}

// offset: groups that may still be under way; kind: only their reads are waited for.
void wait_for_stores(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) { finish_stores(warp, lane, static_cast<size_t>(i.offset), i.kind != 0); });
}

// Base register of an address that has no offset beyond what fits the instruction.
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
    if (!warp.has_stores) continue;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (const BulkStore& store : warp.open_stores[lane]) visit(store);
      for (const auto& group : warp.store_groups[lane]) {
        for (const BulkStore& store : group) visit(store);
      }
    }
  }
}

// The copy has read until now.
void finish_reading(Warp& warp, int lane, BulkStore& store) {
  if (store.has_read) return;
  if (!store.is_done) store.work();
  store.is_done = store.has_read = true;
  --warp.block->pending_reads;
  if (checks(warp)) warp.block->shadow.note_read(access_of(warp, lane), store.from, store.bytes);
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
    if (address >= store.high || address + bytes <= store.low || !store.writes_to(address, bytes)) return;
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
  if (!warp.has_stores) return;
  warp.store_groups[lane].push_back(std::move(warp.open_stores[lane]));
  warp.open_stores[lane].clear();
  for (const auto& group : warp.store_groups[lane]) {
    for (const BulkStore& store : group) {
      if (store.has_read || !checks(warp)) continue;
      fail(warp, 1u << lane, "a thread ends before its copy from shared memory has been waited for");
    }
  }
  finish_stores(warp, lane, 0, false);
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
