// SPDX-License-Identifier: Apache-2.0
// How the gradients of the position tables are summed: tasks, whose number depends on shape and device alone, write
// partial sums, which are then added in a fixed order.
#pragma once

#include <algorithm>

#include "ops/disentangled/disentangled_attention.h"

namespace gradmill {

inline int64_t num_buckets(const DisentangledAttentionArgs& args) {
  return args.pos_k.defined() ? args.pos_k.rows() : args.pos_q.rows();
}

// On a CPU, a task is one head of some neighbouring sequences. There are just enough groups of sequences to give every
// core a task, because each group has partial sums of both tables.
inline int64_t task_chunks(const AttentionArgs& args) {
  return std::clamp<int64_t>((64 + args.heads - 1) / args.heads, 1, std::max<int64_t>(args.seq.max_seqs, 1));
}

// On a GPU, a task is one diagonal of the tiles (64 queries x 64 keys) of one head, in some neighbouring sequences. All
// its pairs have one of kWindow distances, for which a block holds the sums. Diagonals are ranked 0, 1, -1, 2, …, the
// longest first. Partial sums: (heads, diagonals, chunks, 2, kWindow, head_dim).
struct DiagonalTasks {
  static constexpr int64_t kTile = 64;         // queries and keys per tile
  static constexpr int64_t kWindow = 128;      // the distances of a tile, plus one that no pair has
  static constexpr int64_t kTasksPerUnit = 4;  // two run at once, and short ones fill the gaps that long ones leave

  int64_t tiles = 0;      // tiles of the longest sequence, in either direction
  int64_t diagonals = 0;  // number of diagonals of these tiles
  int64_t group = 0;      // sequences per chunk
  int64_t chunks = 0;

  DiagonalTasks(const AttentionArgs& args, const DeviceSpec& device) {
    const int64_t seqs = args.seq.max_seqs;
    tiles = (std::min(args.seq.max_len, args.q.rows()) + kTile - 1) / kTile;
    if (seqs == 0 || tiles == 0) return;
    diagonals = 2 * tiles - 1;
    const int64_t wanted = kTasksPerUnit * std::max<int64_t>(device.num_units, 1), row = args.heads * diagonals;
    const int64_t most = std::clamp<int64_t>((wanted + row - 1) / row, 1, seqs);
    group = (seqs + most - 1) / most;
    chunks = (seqs + group - 1) / group;
  }
  int64_t partials(const AttentionArgs& args) const {
    return args.heads * diagonals * chunks * 2 * kWindow * args.head_dim;
  }
};

}  // namespace gradmill
