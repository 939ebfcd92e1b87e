// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels for disentangled attention.
#pragma once

#include "ops/disentangled/disentangled_partials.h"
#include "ops/attention/flash_params.cuh"

namespace gradmill::disentangled {

using namespace flash;

inline constexpr int kTile = int(DiagonalTasks::kTile), kWindow = int(DiagonalTasks::kWindow);

template <class N>
struct PositionParams {
  Params<N> content;
  HeadRows<const N> pos_k, pos_q;  // data is null if the term is omitted
  const int32_t* buckets;          // points to the entry for distance 0
  int farthest;                    // largest distance in the buckets

  // The row of a table. Distances beyond the last key or query of a tile are looked up as well, but no pair has them.
  __device__ int bucket(int distance) const { return buckets[max(-farthest, min(farthest, distance))]; }
};

template <class N>
struct PositionGradParams {
  PositionParams<N> forward;
  HeadRows<const N> dout;
  HeadRows<N> dq, dk, dv;
  const float* delta;  // (H, N) sum of out * dout
  float* partials;     // (H, diagonals, chunks, 2, kWindow, D)
  int seqs, tiles, diagonals, group, chunks;

  __device__ float* partial(int head, int rank, int chunk, int table) const {
    const int64_t index = (int64_t(head * diagonals + rank) * chunks + chunk) * 2 + table;
    return partials + index * kWindow * forward.content.head_dim;
  }
};

// The diagonals by rank: 0, 1, -1, 2, -2, …. On a diagonal, the queries of a tile begin 64 * diagonal after its keys.
__device__ inline int diagonal_of(int rank) { return rank % 2 == 1 ? (rank + 1) / 2 : -rank / 2; }
__device__ inline int rank_of(int diagonal) { return diagonal > 0 ? 2 * diagonal - 1 : -2 * diagonal; }

template <class T>
PositionParams<cuda::Native<T>> make_params(const ExecContext& ctx, const DisentangledAttentionArgs& args) {
  using N = cuda::Native<T>;
  const auto table = [](const TensorView& view) {
    return view.defined() ? HeadRows<const N>{cuda::native<T>(view), view.row_stride} : HeadRows<const N>{nullptr, 0};
  };
  const int64_t farthest = args.buckets.numel() / 2;
  return {.content = flash::make_params<T>(ctx, args.content),
          .pos_k = table(args.pos_k),
          .pos_q = table(args.pos_q),
          .buckets = args.buckets.ptr<int32_t>() + farthest,
          .farthest = int(farthest)};
}

template <class T>
PositionGradParams<cuda::Native<T>> make_params(const ExecContext& ctx, const DisentangledAttentionGradArgs& args,
                                                const TensorView& delta, const TensorView& partials) {
  using N = cuda::Native<T>;
  const AttentionArgs& content = args.forward.content;
  const auto rows = [](const TensorView& view) { return HeadRows<N>{cuda::native<T>(view), view.row_stride}; };
  const DiagonalTasks tasks(content, ctx.device);
  return {.forward = make_params<T>(ctx, args.forward),
          .dout = {cuda::native<T>(args.dout), args.dout.row_stride},
          .dq = rows(args.dq),
          .dk = rows(args.dk),
          .dv = rows(args.dv),
          .delta = delta.ptr<float>(),
          .partials = partials.ptr<float>(),
          .seqs = int(content.seq.max_seqs),
          .tiles = int(tasks.tiles),
          .diagonals = int(tasks.diagonals),
          .group = int(tasks.group),
          .chunks = int(tasks.chunks)};
}

}  // namespace gradmill::disentangled
