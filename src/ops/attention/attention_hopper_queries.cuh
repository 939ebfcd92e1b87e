// SPDX-License-Identifier: Apache-2.0
// Blocks that own queries, in the forward of attention and in the backward for the gradients of queries. A block owns
// up to 192 queries, 64 for each of three warpgroups, and loops over their keys from the diagonal backwards.
#pragma once

#include "ops/attention/attention_hopper.cuh"

namespace gradmill {
namespace hopper {

inline constexpr int kQueryGroups = 3, kQueryThreads = (kQueryGroups + 1) * kWarpgroup;  // one warpgroup starts copies
inline constexpr int kQueryRegisters = 160, kQueryCopierRegisters = 32;

// Shared memory: kOwned matrices with rows of owned queries and one float per row, both twice, so that the next item
// can be loaded; stages of kKeys keys and values; barriers.
template <int kOwned, bool kFloats, int kKeys, int kStageCount>
struct QueriesLayout {
  static constexpr int kGroups = kQueryGroups, kStages = kStageCount, kStepKeys = kKeys, kMatrices = kOwned;
  static constexpr uint32_t kMatrixBytes = kGroups * kHalfTileBytes, kStepBytes = kKeys * cuda::kTileRowBytes;
  static constexpr uint32_t kFloatBytes = kFloats ? kGroups * kHalf * 4 : 0, kRing = 2 * kOwned * kMatrixBytes;
  static constexpr uint32_t kFloatsAt = kRing + kStages * 2 * kStepBytes, kSignalsAt = kFloatsAt + 2 * kFloatBytes;
  static constexpr uint32_t kBytes = kSignalsAt + Signals<kStages, kGroups>::kBytes + 1024;  // 1024 to align the start
  uint32_t base;
  Signals<kStages, kGroups> signals;

  __device__ explicit QueriesLayout(const void* shared)
      : base((cuda::shared_address(shared) + 1023) & ~1023u), signals{base + kSignalsAt} {}
  __device__ uint32_t own(int buffer, int i) const { return base + uint32_t(buffer * kOwned + i) * kMatrixBytes; }
  __device__ uint32_t floats(int buffer) const { return base + kFloatsAt + uint32_t(buffer) * kFloatBytes; }
  // Keys for i = 0, values for i = 1.
  __device__ uint32_t tile(int stage, int i) const { return base + kRing + uint32_t(2 * stage + i) * kStepBytes; }
};

// Units of 64 queries, one for each warpgroup.
struct Units {
  int seq, head, first, count;  // first: position in the sequence
  int seen;                     // number of units of keys that the last unit sees; 0: there is no item
};

// The items of a block. Sequences need not be a multiple of three units: the first item, which sees the fewest keys,
// has the remaining units.
struct Queries {
  static constexpr int kMost = kQueryGroups;
  int heads, units, lines, items, left;
  bool causal;

  __host__ __device__ explicit Queries(const Params& p)
      : heads(p.heads),
        units(2 * p.tiles),
        lines(p.seqs * p.heads),
        items((units + kMost - 1) / kMost),
        left(units - (items - 1) * kMost),
        causal(p.causal) {}
  __host__ __device__ int64_t count() const { return int64_t{lines} * items; }
  __device__ Units operator[](int round) const {
    const int64_t index = item_of(round);
    if (index >= count()) return {};
    const int line = int(index % lines), item = items - 1 - int(index / lines);
    const int first = item == 0 ? 0 : left + (item - 1) * kMost, count = item == 0 ? left : kMost;
    return {line / heads, line % heads, first, count, causal ? first + count : units};
  }
};

#ifdef GRADMILL_HOPPER_CODE

// The part of an item that belongs to one warpgroup.
struct OwnUnit {
  int all_steps, steps;  // of the item; the steps in which this warpgroup sees keys, which come last
  int index;             // index of the unit in its sequence

  template <class Layout>
  __device__ OwnUnit(const Owned<Layout>& owned, int warpgroup, bool causal) : all_steps(owned.item(ItemField::steps)) {
    constexpr int kUnits = Layout::kStepKeys / kHalf;
    const int units = owned.item(ItemField::units);
    index = units / 4 + warpgroup;
    steps = warpgroup >= units % 4 ? 0 : causal ? index / kUnits + 1 : all_steps;
  }
};

// Skips the steps whose keys this warpgroup does not see.
template <class Layout>
__device__ void pass_over_steps(const Layout& shared, int steps, const Turns<Layout::kGroups>& turns,
                                cuda::RingPlace<Layout::kStages>& place) {
#pragma unroll 1
  for (int i = 0; i < steps; ++i, place.advance()) {
    cuda::barrier_wait(shared.signals.full(place.stage), place.parity);
    turns.wait();
    turns.pass_on();
    if (threadIdx.x % 32 == 0) cuda::barrier_arrive(shared.signals.empty(place.stage));
  }
}

// The producer: one thread starts all copies. more(item, row, buffer, full) starts further copies for an item, of
// kFloatBytes per unit.
template <class Layout, class More>
__device__ void bring_queries_and_keys(const Layout& shared, const CUtensorMap* const (&own_maps)[Layout::kMatrices],
                                       const Maps& maps, const Params& p, More&& more) {
  constexpr int kUnits = Layout::kStepKeys / kHalf;
  const Queries queries(p);
  cuda::RingPlace<2> own;
  cuda::RingPlace<Layout::kStages> place;
#pragma unroll 1
  for (int round = 0;; ++round, own.advance()) {
    const Units item = queries[round];
    const int row_of_seq = item.seq * p.tiles * kTile, row = row_of_seq + item.first * kHalf;
    const int steps = (item.seen + kUnits - 1) / kUnits;
    const uint32_t own_full = shared.signals.own_full(own.stage);
    const auto publish = [&](ItemField what, int value) {
      cuda::store_shared(shared.signals.item(own.stage) + uint32_t(what) * 4, uint32_t(value));
    };
    cuda::barrier_wait(shared.signals.own_empty(own.stage), own.parity ^ 1);  // does not wait in the first round
    publish(ItemField::steps, steps);
    publish(ItemField::row, row);
    publish(ItemField::head, item.head);
    publish(ItemField::units, item.first * 4 + item.count);
    if (steps == 0) {
      cuda::barrier_arrive(own_full);
      return;
    }
    constexpr uint32_t kUnitBytes = Layout::kMatrices * kHalfTileBytes + Layout::kFloatBytes / Layout::kGroups;
    cuda::barrier_expect(own_full, uint32_t(item.count) * kUnitBytes);
#pragma unroll 1
    for (int i = 0; i < item.count; ++i) {
#pragma unroll
      for (int m = 0; m < Layout::kMatrices; ++m) {
        cuda::copy_tile(shared.own(own.stage, m) + uint32_t(i) * kHalfTileBytes, *own_maps[m], item.head * kHeadDim,
                        row + i * kHalf, own_full);
      }
    }
    more(item, row, own.stage, own_full);
#pragma unroll 1
    for (int step = steps - 1; step >= 0; --step, place.advance()) {
      const uint32_t full = shared.signals.full(place.stage);
      const int key = row_of_seq + step * Layout::kStepKeys, column = item.head / p.group * kHeadDim;
      cuda::barrier_wait(shared.signals.empty(place.stage), place.parity ^ 1);
      cuda::barrier_expect(full, 2 * Layout::kStepBytes);
      cuda::copy_tile(shared.tile(place.stage, 0), maps.k, column, key, full);
      cuda::copy_tile(shared.tile(place.stage, 1), maps.v, column, key, full);
    }
  }
}

// The main function of a block: one thread loads, and three warpgroups compute.
template <class Layout, class Bring, class Walk>
__device__ void share_work(const Layout& shared, Bring&& bring, Walk&& walk) {
  shared.signals.init(kWarpgroup / 32);
  if (threadIdx.x >= Layout::kGroups * kWarpgroup) {
    cuda::give_registers<kQueryCopierRegisters>();
    if (threadIdx.x == Layout::kGroups * kWarpgroup) bring();
  } else {
    cuda::take_registers<kQueryRegisters>();
    walk();
  }
}

#endif  // GRADMILL_HOPPER_CODE

}  // namespace hopper
}  // namespace gradmill
