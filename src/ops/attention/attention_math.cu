// SPDX-License-Identifier: Apache-2.0
// Naive attention: scores, softmax and GEMMs are separate passes over matrices in memory. The GEMMs use tiles of fp32
// multiply-adds and reach about half of the peak of the plain units. Every pass reads and writes each T×T matrix once.
#include "ops/attention/attention_math.h"

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/reduce.cuh"
#include "ops/attention/attention_layout.h"

namespace gradmill {
namespace {

using cuda::from_float;
using cuda::Native;
using cuda::to_float;

// One matrix per sequence and head. `share` neighbouring heads of the result read the same head.
template <class N>
struct HeadMatrix {
  N* data;
  int64_t seq_stride, head_stride, row_stride;
  int share;
  bool transposed;

  __device__ N* at(int64_t seq, int64_t head) const { return data + seq * seq_stride + head / share * head_stride; }
};

// c (m, n) = alpha · sum over `group` heads of op(a) (m, k) · op(b) (k, n), for every sequence and head of c.
template <class N>
struct ProductArgs {
  HeadMatrix<N> a, b, c;
  int64_t seqs, heads, m, n, k;
  int group;
  float alpha;
};

constexpr int kTile = 64, kDepth = 16, kEach = 4, kProductThreads = (kTile / kEach) * (kTile / kEach);

// Element (i, depth) of op(x): rows or columns of x, 0 outside it. Neighbouring threads read neighbouring memory.
template <class N>
__device__ void load_tile(const N* x, int64_t row_stride, bool depth_is_row, int64_t first, int64_t end, int64_t depth,
                          int64_t depth_end, float (*tile)[kTile + kEach]) {
#pragma unroll
  for (int j = 0; j < kTile * kDepth / kProductThreads; ++j) {
    const int index = j * kProductThreads + static_cast<int>(threadIdx.x);
    const int i = depth_is_row ? index % kTile : index / kDepth, d = depth_is_row ? index / kTile : index % kDepth;
    const int64_t row = depth_is_row ? depth + d : first + i, col = depth_is_row ? first + i : depth + d;
    const bool inside = first + i < end && depth + d < depth_end;
    tile[d][i] = inside ? to_float(x[row * row_stride + col]) : 0.0f;
  }
}

template <class N>
__global__ void __launch_bounds__(kProductThreads) product_kernel(const __grid_constant__ ProductArgs<N> args) {
  __shared__ __align__(16) float a_tile[kDepth][kTile + kEach], b_tile[kDepth][kTile + kEach];
  const int64_t n_tiles = (args.n + kTile - 1) / kTile, m_tiles = (args.m + kTile - 1) / kTile;
  const int64_t matrix = blockIdx.x / (n_tiles * m_tiles), tile = blockIdx.x % (n_tiles * m_tiles);
  const int64_t seq = matrix / args.heads, head = matrix % args.heads;
  const int64_t first_m = tile / n_tiles * kTile, first_n = tile % n_tiles * kTile;
  const int row = static_cast<int>(threadIdx.x) / (kTile / kEach) * kEach;
  const int col = static_cast<int>(threadIdx.x) % (kTile / kEach) * kEach;
  float sums[kEach][kEach] = {};
  for (int g = 0; g < args.group; ++g) {
    const N* a = args.a.at(seq, head * args.group + g);
    const N* b = args.b.at(seq, head * args.group + g);
    for (int64_t depth = 0; depth < args.k; depth += kDepth) {
      load_tile(a, args.a.row_stride, args.a.transposed, first_m, args.m, depth, args.k, a_tile);
      load_tile(b, args.b.row_stride, !args.b.transposed, first_n, args.n, depth, args.k, b_tile);
      __syncthreads();
#pragma unroll
      for (int d = 0; d < kDepth; ++d) {
        const float4 left = *reinterpret_cast<const float4*>(&a_tile[d][row]);
        const float4 right = *reinterpret_cast<const float4*>(&b_tile[d][col]);
        const float l[kEach] = {left.x, left.y, left.z, left.w}, r[kEach] = {right.x, right.y, right.z, right.w};
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
#pragma unroll
          for (int j = 0; j < kEach; ++j) sums[i][j] = fmaf(l[i], r[j], sums[i][j]);
        }
      }
      __syncthreads();
    }
  }
  N* c = args.c.at(seq, head);
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) {
      const int64_t m = first_m + row + i, n = first_n + col + j;
      if (m < args.m && n < args.n) c[m * args.c.row_stride + n] = from_float<N>(args.alpha * sums[i][j]);
    }
  }
}

template <class N>
void multiply(ExecContext& ctx, const ProductArgs<N>& args) {
  const int64_t tiles = ((args.m + kTile - 1) / kTile) * ((args.n + kTile - 1) / kTile);
  const auto blocks = static_cast<unsigned>(tiles * args.seqs * args.heads);
  cuda::launch({blocks, kProductThreads, cuda::stream_of(ctx)}, product_kernel<N>, args);
}

// Rows of T×T matrices, one block per row.
template <class N>
struct RowArgs {
  N* scores;   // (B, H, T, T): on return, the weights
  N* dscores;  // (B, H, T, T): gradients of the weights; on return, those of the scores
  float* lse;  // (H, N)
  int64_t heads, len, lse_stride;
  int64_t left, right;  // the mask's limits
};

constexpr int kRowThreads = 128;

struct Row {
  int64_t offset, lse;         // position of its first score, and of its entry in lse
  int64_t key_begin, key_end;  // the keys that the mask leaves
};
template <class N>
__device__ Row this_row(const RowArgs<N>& args) {
  const int64_t index = blockIdx.x, query = index % args.len;
  const int64_t head = index / args.len % args.heads, seq = index / args.len / args.heads;
  return {index * args.len, head * args.lse_stride + seq * args.len + query,
          args.left < 0 || query < args.left ? 0 : query - args.left,
          args.right < 0 || query + args.right >= args.len ? args.len : query + args.right + 1};
}
template <class N>
__global__ void __launch_bounds__(kRowThreads) softmax_kernel(const __grid_constant__ RowArgs<N> args) {
  __shared__ float shared[kRowThreads / cuda::kWarpSize];
  const Row row = this_row(args);
  N* scores = args.scores + row.offset;
  float largest = -INFINITY, total = 0;
  for (int64_t key = row.key_begin + threadIdx.x; key < row.key_end; key += kRowThreads) {
    largest = fmaxf(largest, to_float(scores[key]));
  }
  largest = cuda::block_reduce(largest, cuda::Max(), -INFINITY, shared);
  for (int64_t key = row.key_begin + threadIdx.x; key < row.key_end; key += kRowThreads) {
    total += expf(to_float(scores[key]) - largest);
  }
  total = cuda::block_reduce(total, cuda::Sum(), 0.0f, shared);
  const float factor = 1 / total;
  for (int64_t key = threadIdx.x; key < args.len; key += kRowThreads) {
    const bool visible = key >= row.key_begin && key < row.key_end;
    scores[key] = from_float<N>(visible ? factor * expf(to_float(scores[key]) - largest) : 0.0f);
  }
  if (threadIdx.x == 0) args.lse[row.lse] = largest + logf(total);
}

// Recomputes the weights from scores and lse. Then dscore = weight · (dweight - sum of weight · dweight).
template <class N>
__global__ void __launch_bounds__(kRowThreads) softmax_backward_kernel(const __grid_constant__ RowArgs<N> args) {
  __shared__ float shared[kRowThreads / cuda::kWarpSize];
  const Row row = this_row(args);
  N *scores = args.scores + row.offset, *dscores = args.dscores + row.offset;
  const float lse = args.lse[row.lse];
  const auto weight = [&](int64_t key) {
    return key >= row.key_begin && key < row.key_end ? expf(to_float(scores[key]) - lse) : 0.0f;
  };
  float total = 0;
  for (int64_t key = row.key_begin + threadIdx.x; key < row.key_end; key += kRowThreads) {
    total += weight(key) * to_float(dscores[key]);
  }
  total = cuda::block_reduce(total, cuda::Sum(), 0.0f, shared);
  for (int64_t key = threadIdx.x; key < args.len; key += kRowThreads) {
    const float w = weight(key);
    const bool visible = key >= row.key_begin && key < row.key_end;
    dscores[key] = from_float<N>(visible ? w * (to_float(dscores[key]) - total) : 0.0f);
    scores[key] = from_float<N>(w);
  }
}

// Builds the arguments of the passes.
template <class T>
class Math {
 public:
  using N = Native<T>;
  Math(ExecContext& ctx, const AttentionArgs& args) : ctx_(ctx), args_(args), len_(args.seq.max_len) {}

  // Columns of (N, heads * D). A group of query heads shares each key head.
  HeadMatrix<N> rows(const TensorView& view, bool of_keys = false, bool transposed = false) const {
    return {cuda::native<T>(view), len_ * view.row_stride, args_.head_dim,
            view.row_stride,       of_keys ? group() : 1,  transposed};
  }
  HeadMatrix<N> square(N* data, bool transposed = false) const {
    return {data, args_.heads * len_ * len_, len_ * len_, len_, 1, transposed};
  }

  // c (T, T) of every query head = alpha · a · bᵀ, where both are (T, D).
  void scores(const TensorView& a, const TensorView& b, N* c, float alpha) {
    multiply<N>(ctx_, {rows(a), rows(b, true, true), square(c), args_.seq.max_seqs, args_.heads, len_, len_,
                       args_.head_dim, 1, alpha});
  }
  // c (T, D) of every query head = alpha · weights · b.
  void mix(N* weights, const TensorView& b, const TensorView& c, float alpha) {
    multiply<N>(ctx_, {square(weights), rows(b, true), rows(c), args_.seq.max_seqs, args_.heads, len_, args_.head_dim,
                       len_, 1, alpha});
  }
  // c (T, D) of every key head = alpha · sum over its query heads of weightsᵀ · b.
  void gather(N* weights, const TensorView& b, const TensorView& c, float alpha) {
    multiply<N>(ctx_, {square(weights, true), rows(b), rows(c), args_.seq.max_seqs, args_.kv_heads, len_,
                       args_.head_dim, len_, group(), alpha});
  }

  template <class Kernel>
  void each_row(Kernel kernel, N* scores, N* dscores) {
    const auto blocks = static_cast<unsigned>(args_.seq.max_seqs * args_.heads * len_);
    const RowArgs<N> args{
        scores,          dscores,         args_.lse.ptr<float>(), args_.heads, len_, args_.lse.row_stride,
        args_.mask.left, args_.mask.right};
    cuda::launch({blocks, kRowThreads, cuda::stream_of(ctx_)}, kernel, args);
  }

  void clear_lse_padding() {
    const int64_t used = args_.seq.max_seqs * len_, all = args_.lse.cols();
    if (used == all) return;
    cuda::check(cudaMemset2DAsync(args_.lse.ptr<float>() + used, all * sizeof(float), 0, (all - used) * sizeof(float),
                                  args_.heads, cuda::stream_of(ctx_)),
                "clearing padding");
  }

 private:
  int group() const { return static_cast<int>(args_.heads / args_.kv_heads); }

  ExecContext& ctx_;
  const AttentionArgs& args_;
  int64_t len_;
};

}  // namespace

template <class T>
void math_forward(ExecContext& ctx, const AttentionArgs& args, const TensorView& workspace) {
  Math<T> math(ctx, args);
  auto* weights = static_cast<Native<T>*>(workspace.data);
  math.scores(args.q, args.k, weights, args.scale);
  math.each_row(softmax_kernel<Native<T>>, weights, nullptr);
  math.mix(weights, args.v, args.out, 1);
  clear_padding(ctx, args.seq, {args.out});
  math.clear_lse_padding();
}

template <class T>
void math_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& workspace) {
  const AttentionArgs& forward = args.forward;
  Math<T> math(ctx, forward);
  auto* weights = static_cast<Native<T>*>(workspace.data);
  auto* dscores = weights + forward.seq.max_seqs * forward.heads * forward.seq.max_len * forward.seq.max_len;
  math.scores(forward.q, forward.k, weights, forward.scale);
  math.scores(args.dout, forward.v, dscores, 1);
  math.each_row(softmax_backward_kernel<Native<T>>, weights, dscores);
  math.gather(weights, args.dout, args.dv, 1);
  math.mix(dscores, forward.k, args.dq, forward.scale);
  math.gather(dscores, forward.q, args.dk, forward.scale);
  clear_padding(ctx, forward.seq, {args.dq, args.dk, args.dv});
}

template void math_forward<float>(ExecContext&, const AttentionArgs&, const TensorView&);
template void math_forward<Bf16>(ExecContext&, const AttentionArgs&, const TensorView&);
template void math_forward<Fp16>(ExecContext&, const AttentionArgs&, const TensorView&);
template void math_backward<float>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void math_backward<Bf16>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void math_backward<Fp16>(ExecContext&, const AttentionGradArgs&, const TensorView&);

}  // namespace gradmill
