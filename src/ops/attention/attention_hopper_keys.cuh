// SPDX-License-Identifier: Apache-2.0
// Blocks that own keys, in the backward of attention. A block owns 128 keys, 64 for each of two warpgroups, and loops
// over the queries that see them, of all heads that share them.
#pragma once

#include "ops/attention/attention_hopper.cuh"

namespace gradmill {
namespace hopper {

inline constexpr int kKeyGroups = 2, kKeyThreads = (kKeyGroups + 1) * kWarpgroup;  // one warpgroup starts copies
inline constexpr int kKeyRegisters = 240, kKeyCopierRegisters = 24;
inline constexpr uint32_t kStatsBytes = 2 * kHalf * sizeof(float);

// Shared memory: the tiles of owned keys and values, twice, so that the next item can be loaded; stages of 64 queries
// with their rows of dout and stats; barriers.
struct KeysLayout {
  static constexpr int kStages = 8;
  static constexpr uint32_t kRing = 4 * kTileBytes, kStatsAt = kRing + kStages * 2 * kHalfTileBytes;
  static constexpr uint32_t kSignalsAt = kStatsAt + kStages * kStatsBytes;
  static constexpr uint32_t kBytes =
      kSignalsAt + Signals<kStages, kKeyGroups>::kBytes + 1024;  // 1024 to align the start
  uint32_t base;
  Signals<kStages, kKeyGroups> signals;

  __device__ explicit KeysLayout(const void* shared)
      : base((cuda::shared_address(shared) + 1023) & ~1023u), signals{base + kSignalsAt} {}
  __device__ uint32_t own(int buffer, int i) const { return base + uint32_t(2 * buffer + i) * kTileBytes; }
  __device__ uint32_t tile(int stage, int i) const { return base + kRing + uint32_t(2 * stage + i) * kHalfTileBytes; }
  __device__ uint32_t stats(int stage) const { return base + kStatsAt + uint32_t(stage) * kStatsBytes; }
};

// The tile of keys that a block owns for one item, and the number of steps to loop over; 0 steps if there is no tile.
struct OwnKeys {
  int seq, head, tile;  // head: index of the key head
  int steps;

  __device__ static OwnKeys of(const Params& p, int round) {
    const int64_t index = item_of(round);
    const int heads = p.heads / p.group, lines = p.seqs * heads;
    if (index >= int64_t{lines} * p.tiles) return {};
    const int line = int(index % lines), tile = int(index / lines);
    return {line / heads, line % heads, tile, (p.causal ? p.tiles - tile : p.tiles) * 2 * p.group};
  }
  __device__ int row(const Params& p) const { return (seq * p.tiles + tile) * kTile; }
};

}  // namespace hopper
}  // namespace gradmill
