// SPDX-License-Identifier: Apache-2.0
// RoPE on the CPU: one head at a time, with both halves of its pairs in one pass, so that rotating in place is safe.
#include "ops/rope.h"
#include "ops/row_chunks.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

struct Pair {
  Floats low, high;  // elements j and j + D/2
};

HWY_INLINE Pair rotate(Pair x, Floats cosine, Floats sine) {
  return {hn::NegMulAdd(x.high, sine, hn::Mul(x.low, cosine)), hn::MulAdd(x.low, sine, hn::Mul(x.high, cosine))};
}
HWY_INLINE Pair rotate_back(Pair x, Floats cosine, Floats sine) { return rotate(x, cosine, hn::Neg(sine)); }

template <class T>
HWY_INLINE float head_rstd(const T* head, int64_t size, float eps) {
  Floats squares = zeros();
  for_each_vector(size, [&](int64_t, auto in, auto) HWY_ATTR {
    const Floats x = in(head);
    squares = hn::MulAdd(x, x, squares);
  });
  return 1.0f / std::sqrt(sum_lanes(squares) / static_cast<float>(size) + eps);
}

template <class T>
HWY_INLINE void forward_head(const RopeArgs& args, const T* x, const T* weight, const float* cosines, T* out) {
  const int64_t half = args.head_dim / 2;
  const float* sines = cosines + half;
  if (weight == nullptr) {
    for_each_vector(half, [&](int64_t, auto in, auto put) HWY_ATTR {
      const Pair y = rotate({in(x), in(x + half)}, in(cosines), in(sines));
      put(y.low, out);
      put(y.high, out + half);
    });
    return;
  }
  const Floats rstd = splat(head_rstd(x, args.head_dim, args.eps)), offset = splat(args.weight_offset);
  for_each_vector(half, [&](int64_t, auto in, auto put) HWY_ATTR {
    const Floats low = hn::Mul(hn::Mul(in(x), rstd), hn::Add(in(weight), offset));
    const Floats high = hn::Mul(hn::Mul(in(x + half), rstd), hn::Add(in(weight + half), offset));
    const Pair y = rotate({low, high}, in(cosines), in(sines));
    put(y.low, out);
    put(y.high, out + half);
  });
}

// The gradient of RMSNorm after that of the rotation: dx = rstd * (g - n * mean(g * n)), where n is the normalised head
// and g = gain * (dout rotated back). Rotates twice, because dx may overwrite dout.
template <class T>
HWY_INLINE void backward_normed_head(const RopeArgs& args, const T* x, const T* weight, const float* cosines,
                                     const T* dout, T* dx, float* dweight) {
  const int64_t half = args.head_dim / 2;
  const float* sines = cosines + half;
  const float scale = head_rstd(x, args.head_dim, args.eps);
  const Floats rstd = splat(scale), offset = splat(args.weight_offset);
  Floats total = zeros();
  for_each_vector(half, [&](int64_t, auto in, auto put) HWY_ATTR {
    const Pair grad = rotate_back({in(dout), in(dout + half)}, in(cosines), in(sines));  // 0 in missing lanes
    const Floats low = hn::Mul(grad.low, hn::Mul(in(x), rstd)), high = hn::Mul(grad.high, hn::Mul(in(x + half), rstd));
    total = hn::MulAdd(low, hn::Add(in(weight), offset), total);
    total = hn::MulAdd(high, hn::Add(in(weight + half), offset), total);
    put(hn::Add(in(dweight), low), dweight);
    put(hn::Add(in(dweight + half), high), dweight + half);
  });
  const Floats mean = splat(sum_lanes(total) / static_cast<float>(args.head_dim));
  for_each_vector(half, [&](int64_t, auto in, auto put) HWY_ATTR {
    const Pair grad = rotate_back({in(dout), in(dout + half)}, in(cosines), in(sines));
    const auto through = [&](Floats g, const T* xs, const T* weights) HWY_ATTR {
      return hn::Mul(rstd, hn::NegMulAdd(hn::Mul(in(xs), rstd), mean, hn::Mul(g, hn::Add(in(weights), offset))));
    };
    const Floats low = through(grad.low, x, weight), high = through(grad.high, x + half, weight + half);
    put(low, dx);
    put(high, dx + half);
  });
}

template <class T>
HWY_INLINE void backward_head(const T* dout, int64_t half, const float* cosines, T* dx) {
  for_each_vector(half, [&](int64_t, auto in, auto put) HWY_ATTR {
    const Pair grad = rotate_back({in(dout), in(dout + half)}, in(cosines), in(cosines + half));
    put(grad.low, dx);
    put(grad.high, dx + half);
  });
}

// Calls visit(row, column, is_query, cosines) for every head of the rows.
template <class Visit>
HWY_INLINE void for_each_head(const RopeArgs& args, int64_t begin, int64_t end, Visit&& visit) {
  for (int64_t row = begin; row < end; ++row) {
    const float* cosines = args.cos_sin.row<float>(args.positions.ptr<int32_t>()[row]);
    for (int64_t head = 0; head < args.heads + args.kv_heads; ++head) {
      visit(row, head * args.head_dim, head < args.heads, cosines);
    }
  }
}

template <class T>
void forward_rows(const RopeArgs& args, int64_t begin, int64_t end) {
  const bool normed = args.q_weight.defined();
  for_each_head(args, begin, end, [&](int64_t row, int64_t col, bool query, const float* cosines) HWY_ATTR {
    const T* weight = !normed ? nullptr : query ? args.q_weight.ptr<T>() : args.k_weight.ptr<T>();
    forward_head(args, args.in.row<T>(row) + col, weight, cosines, args.out.row<T>(row) + col);
  });
}

template <class T>
void backward_rows(const RopeGradArgs& args, int64_t begin, int64_t end, float* dq_weight, float* dk_weight) {
  const RopeArgs& forward = args.forward;
  const bool normed = forward.q_weight.defined();
  if (normed) {
    std::memset(dq_weight, 0, static_cast<size_t>(forward.head_dim) * sizeof(float));
    std::memset(dk_weight, 0, static_cast<size_t>(forward.head_dim) * sizeof(float));
  }
  for_each_head(forward, begin, end, [&](int64_t row, int64_t col, bool query, const float* cosines) HWY_ATTR {
    const T* dout = args.dout.row<T>(row) + col;
    T* din = args.din.row<T>(row) + col;
    if (normed) {
      const T* weight = (query ? forward.q_weight : forward.k_weight).ptr<T>();
      backward_normed_head(forward, forward.in.row<T>(row) + col, weight, cosines, dout, din,
                           query ? dq_weight : dk_weight);
    } else {
      backward_head(dout, forward.head_dim / 2, cosines, din);
    }
  });
}

}  // namespace

void rope_forward_rows(DType dtype, const RopeArgs& args, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) { forward_rows<T>(args, begin, end); });
}
void rope_backward_rows(DType dtype, const RopeGradArgs& args, int64_t begin, int64_t end, float* dq_weight,
                        float* dk_weight) {
  visit_float(dtype, [&]<class T>(T) { backward_rows<T>(args, begin, end, dq_weight, dk_weight); });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
namespace {
HWY_EXPORT(rope_forward_rows);
HWY_EXPORT(rope_backward_rows);
}  // namespace

template <Device D, class T>
void rope_forward(ExecContext& ctx, const RopeArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(rope_forward_rows);
  cpu::parallel_for(*ctx.pool, args.in.rows(), cpu::rows_per_task(args.in.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end); });
}

template <Device D, class T>
void rope_backward(ExecContext& ctx, const RopeGradArgs& args, const TensorView& partials) {
  const auto rows = HWY_DYNAMIC_DISPATCH(rope_backward_rows);
  const int64_t num_rows = args.dout.rows(), size = args.forward.head_dim;
  if (!partials.defined()) {
    cpu::parallel_for(*ctx.pool, num_rows, cpu::rows_per_task(args.dout.cols()),
                      [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end, nullptr, nullptr); });
    return;
  }
  const RowChunks chunks = row_chunks(num_rows);
  float *dq_weight = partials.ptr<float>(), *dk_weight = dq_weight + chunks.count * size;
  cpu::parallel_for(*ctx.pool, num_rows, chunks.rows, [&](int64_t begin, int64_t end) {
    const int64_t offset = begin / chunks.rows * size;
    rows(dtype_of<T>, args, begin, end, dq_weight + offset, dk_weight + offset);
  });
  if (args.dq_weight.defined()) {
    cpu::add_partials(*ctx.pool, dq_weight, chunks.count, size, args.dq_weight.ptr<float>(), args.q_beta);
  }
  if (args.dk_weight.defined()) {
    cpu::add_partials(*ctx.pool, dk_weight, chunks.count, size, args.dk_weight.ptr<float>(), args.k_beta);
  }
}

template void rope_forward<Device::cpu, float>(ExecContext&, const RopeArgs&);
template void rope_forward<Device::cpu, Bf16>(ExecContext&, const RopeArgs&);
template void rope_forward<Device::cpu, Fp16>(ExecContext&, const RopeArgs&);
template void rope_backward<Device::cpu, float>(ExecContext&, const RopeGradArgs&, const TensorView&);
template void rope_backward<Device::cpu, Bf16>(ExecContext&, const RopeGradArgs&, const TensorView&);
template void rope_backward<Device::cpu, Fp16>(ExecContext&, const RopeGradArgs&, const TensorView&);

}  // namespace gradmill
#endif
