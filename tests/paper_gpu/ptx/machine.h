// SPDX-License-Identifier: Apache-2.0
// The state of a running grid: warps, blocks and clusters.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "paper_gpu/ptx/clocks.h"
#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/ptx/run.h"
#include "paper_gpu/ptx/shared_shadow.h"

namespace gradmill::paper::ptx {

struct Block;
struct Cluster;
struct Grid;

// An error of a kernel; ends its run.
struct Finding {
  std::string text;
};

// Lanes of a warp at the same instruction.
struct LaneGroup {
  uint32_t pc, mask;
  bool blocked;  // at an instruction that waits for other lanes
};

// An asynchronous copy of up to 16 bytes, which belongs to one lane.
struct SmallCopy {
  uint32_t to;
  uint64_t from;
  uint8_t bytes, filled;
  uint64_t number = 0;  // in the order of the warp's copies
};

// A pending product of a warpgroup, as seen by one of its warps.
struct OpenProduct {
  const Instruction* instruction;
  uint64_t left, right;               // descriptors
  std::vector<uint32_t> left_values;  // contents of registers
  bool add;
  bool done;
};

// Rows in global memory, `step` bytes apart.
struct StoredRows {
  uint64_t begin, step;
  uint32_t bytes, count;  // bytes per row, and number of rows

  bool overlap(uint64_t address, uint32_t size) const {
    if (count == 0 || address + size <= begin) return false;
    const uint64_t last = count == 1 ? 0 : std::min<uint64_t>(count - 1, (address + size - 1 - begin) / step);
    return begin + last * step + bytes > address;
  }
};

// A copy from shared memory that a lane has started.
struct BulkStore {
  uint32_t from, bytes;
  StoredRows to;
  std::function<void()> work;
  bool is_done = false, has_read = false;  // has_read: it has read its source, and that was waited for
};

struct Warp {
  static constexpr uint32_t kNothing = UINT32_MAX;

  Block* block = nullptr;
  uint32_t index = 0;      // index in the block
  uint32_t actor = 0;      // index in the cluster
  uint8_t* bases[2] = {};  // registers and constants
  uint32_t* predicates = nullptr;
  uint32_t carries = 0;  // carry flags of .cc, by lane
  std::vector<LaneGroup> groups;
  uint32_t live = 0;    // lanes that have not ended
  bool waits = false;   // at a barrier of the block
  uint64_t passed = 0;  // number of polls that succeeded
  bool polls = false;   // the last poll found that what it waits for is not ready
  bool in_cluster_barrier = false;
  uint32_t cluster_phase = 0;
  const Instruction* current = nullptr;
  Issued issued;
  Issued before_turn;         // counts before a turn that begins just after a failed poll
  uint32_t asked = kNothing;  // where the last poll failed
  bool asks_again = false;    // this turn began there

  std::vector<SmallCopy> open_copies[kLanes];
  std::deque<std::vector<SmallCopy>> copy_groups[kLanes];
  std::vector<BulkStore> open_stores[kLanes];
  std::deque<std::vector<BulkStore>> store_groups[kLanes];
  uint64_t num_copies = 0;
  bool has_copies = false;
  uint32_t lanes_with_stores = 0;

  std::vector<OpenProduct> open_products;
  std::deque<std::vector<OpenProduct>> product_groups;
  std::vector<uint8_t> in_flight;  // by register: a pending product reads (1) or writes (2) it
  uint32_t products_in_flight = 0;
  bool products_fenced = false;  // registers are ready for a product

  Knowledge known;           // what happened before this point, in any warp, and is known to all lanes
  Knowledge ahead;           // what some lanes know because they have waited alone
  uint32_t lanes_ahead = 0;  // these lanes; 0: `ahead` is outdated
  uint32_t lanes_met = 0;    // what the warp itself did until this time is known to all of its lanes
  Knowledge fenced;          // what a fence has prepared to be passed on by a relaxed atomic
  Knowledge seen;            // what relaxed atomics have seen and a fence will make known
  bool has_fenced = false, has_seen = false;
  uint32_t proxy_fences[kLanes] =
      {};                    // when each lane last ordered its accesses with those of the copy engine and products
  uint32_t acquired_at = 0;  // when it last learnt something from others

  const Knowledge& known_to(uint32_t lane) const { return lanes_ahead >> (lane % kLanes) & 1 ? ahead : known; }

  template <class T>
  T* at(Slot slot) {
    return reinterpret_cast<T*>(bases[slot & 1] + (slot & ~1u));
  }
};

// A barrier of the block, by its number.
struct NamedBarrier {
  uint32_t arrived = 0, expected = 0;  // in warps
  std::vector<Warp*> waiting;
  Knowledge known;
  uint32_t count = 0, all = kAllLanes;  // for bar.red
};

// A barrier in shared memory.
struct MemoryBarrier {
  uint32_t expected = 0, pending = 0, phase = 0;
  int64_t bytes = 0;             // that copies have not delivered yet
  bool known_to_engine = false;  // its initialisation was fenced
  Knowledge known, released;
  uint32_t maker = 0, made_at = 0;       // which actor initialised it, and when
  uint32_t engine = 0, engine_time = 0;  // the actor of the copies that signal this barrier, and the time of this
                                         // phase's copies
};

// A copy of a tile or of bytes that is in flight.
struct EngineCopy {
  Block* block;
  std::function<void()> work;
};

struct Block {
  Cluster* cluster = nullptr;
  uint32_t rank = 0;
  uint32_t id[3] = {};
  uint64_t number = 0;  // index in the grid
  uint8_t* shared = nullptr;
  uint32_t shared_bytes = 0;
  std::vector<uint8_t> shared_memory, local, local_written, registers;
  std::vector<uint32_t> predicates;
  std::vector<Warp> warps;
  NamedBarrier barriers[16];
  std::map<uint32_t, MemoryBarrier> memory_barriers;
  SharedShadow shadow;
  uint32_t live_warps = 0;
  uint32_t pending_writes = 0;  // copies to global memory that have not been waited for
  uint32_t pending_reads = 0;   // copies and products that have not read shared memory yet
};

struct Cluster {
  Grid* grid = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  std::deque<EngineCopy> engine;
  uint32_t arrived = 0, phase = 0;
  Knowledge known, released;
  uint32_t num_engines = 0;  // barriers in shared memory so far: each is an actor, numbered after the warps
};

struct Grid {
  const Kernel& kernel;
  const Launch& launch;
  const RunOptions& options;
  Counts* counts;
  std::vector<uint8_t> params;  // with manual alignment
  const uint8_t* param_begin = nullptr;
  std::vector<uint8_t> constants;
  uint8_t* constant_begin = nullptr;
  std::mt19937 random;
  uint32_t launch_number = 0;              // for records of global memory
  std::map<uint64_t, Knowledge> released;  // by address: what atomics there pass on

  bool arrives_now() {
    return options.arrival == Arrival::early || (options.arrival == Arrival::shuffled && random() % 2 == 0);
  }
};

inline uint32_t predicate_of(const Warp& warp, Slot slot, bool negated) {
  return negated ? ~warp.predicates[slot] : warp.predicates[slot];
}

inline Grid& grid_of(Warp& warp) { return *warp.block->cluster->grid; }
inline bool checks(Warp& warp) { return grid_of(warp).options.checks; }

// Reports a finding at the warp's instruction, for the lowest lane in `mask`.
[[noreturn]] void fail(const Warp& warp, uint32_t mask, const std::string& what);

// Addresses of shared memory: those of the own block are offsets; those of mapa contain the block.
inline constexpr uint32_t kRankShift = 24;
// Generic addresses of other spaces than global.
inline constexpr uint64_t kSharedWindow = uint64_t{0x0a} << 40, kLocalWindow = uint64_t{0x0b} << 40,
                          kParamWindow = uint64_t{0x0c} << 40, kWindowBytes = uint64_t{1} << 32;

// Finishes small copies of a lane until only `left` groups are in flight.
void finish_copies(Warp& warp, int lane, size_t left);
void end_copies(Warp& warp, int lane);
void finish_stores(Warp& warp, int lane, size_t left, bool only_reads);
void end_stores(Warp& warp, int lane);
void finish_products(Warp& warp, size_t left);
void check_products(Warp& warp, const Instruction& instruction, uint32_t mask);

// Barriers: whether the warp continues, what it passes on, and what it learns.
bool arrive(Warp& warp, const Instruction& instruction, uint32_t mask);
void warp_ended(Warp& warp);
// Advances the warp's time. Returns the time of what was done until now.
uint32_t advance(Warp& warp);
// Makes what these lanes did until now, and all that the warp knows, known to others.
void release(Warp& warp, Knowledge& to, uint32_t lanes);
// The same without advance(), for several at a time.
void tell(const Warp& warp, Knowledge& to, uint32_t lanes);
// These lanes learn something.
void acquire(Warp& warp, const Knowledge& from, uint32_t lanes);
// All lanes learn something that does not distinguish lanes.
void acquire_of_warps(Warp& warp, const Knowledge& from);
// All lanes are at the same instruction and know what any of them did or learnt before the last advance().
void meet(Warp& warp);

}  // namespace gradmill::paper::ptx
