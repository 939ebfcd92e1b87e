// SPDX-License-Identifier: Apache-2.0
// How the gradients of the position tables are summed: by tasks that are cut by shape and device alone, each of which
// leaves a partial sum; those are then added in a fixed order.
#pragma once

#include <algorithm>

#include "ops/disentangled_attention.h"

namespace gradmill {

inline int64_t num_buckets(const DisentangledAttentionArgs& args) {
  return args.pos_k.defined() ? args.pos_k.rows() : args.pos_q.rows();
}

// On a CPU a task is a head of some neighbouring sequences: so many groups of sequences that there are tasks for every
// core, and no more, since each has a partial sum of both tables.
inline int64_t task_chunks(const AttentionArgs& args) {
  return std::clamp<int64_t>((64 + args.heads - 1) / args.heads, 1, std::max<int64_t>(args.seq.max_seqs, 1));
}

// On a GPU a task is a diagonal of tiles of one head and some neighbouring sequences: all of them have the same
// kWindow distances, for which the block keeps its sums. Task 0 .. count are in the order of their diagonals: 0, 1, -1,
// 2, …, the longest first.
struct DiagonalTasks {
  static constexpr int64_t kTile = 64;      // queries and keys of a tile
  static constexpr int64_t kWindow = 128;   // distances of a tile, and one that no pair has
  static constexpr int64_t kBlocks = 2;     // that a multiprocessor runs at once
  static constexpr int64_t kMinTiles = 16;  // of a task, for its partial sum to be small against what it reads

  int64_t seqs, tiles;  // sequences; tiles of the longest one
  int64_t size;         // tiles that a task should have

  DiagonalTasks(const AttentionArgs& args, const DeviceSpec& device)
      : seqs(args.seq.max_seqs),
        tiles((std::min(args.seq.max_len, args.q.rows()) + kTile - 1) / kTile),
        heads_(args.heads) {
    const int64_t all = seqs * tiles * tiles * heads_, blocks = kBlocks * std::max<int64_t>(device.num_units, 1);
    size = std::max(kMinTiles, (all + blocks - 1) / blocks);
  }

  int64_t diagonals() const { return tiles == 0 ? 0 : 2 * tiles - 1; }
  // Sequences of a task of diagonal `rank` in the order above, and how many tasks of one head it has.
  int64_t seqs_of(int64_t rank) const { return std::max<int64_t>(1, size / (tiles - (rank + 1) / 2)); }
  int64_t count_of(int64_t rank) const { return (seqs + seqs_of(rank) - 1) / seqs_of(rank); }
  int64_t count() const {
    int64_t sum = 0;
    for (int64_t rank = 0; rank < diagonals(); ++rank) sum += count_of(rank);
    return sum;
  }
  // Numbers that all tasks leave: (heads, count, table of keys or queries, kWindow, head_dim).
  int64_t partials(int64_t head_dim) const { return heads_ * count() * 2 * kWindow * head_dim; }

 private:
  int64_t heads_;
};

}  // namespace gradmill
