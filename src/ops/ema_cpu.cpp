// SPDX-License-Identifier: Apache-2.0
// Averages on the CPU: memory-bound loops, vectorised by the compiler.
#include <algorithm>

#include "cpu/thread_pool.h"
#include "ops/ema.h"

namespace gradmill {
namespace {

constexpr int64_t kBlock = 16384;

}  // namespace

template <Device D, class T>
void ema_update(ExecContext& ctx, const EmaArgs& args) {
  if (ctx.scalars->finite == 0) return;
  float* average = args.average.ptr<float>();
  const float* weights = args.weights.ptr<float>();
  cpu::parallel_for(*ctx.pool, args.average.numel(), kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) average[i] = args.decay * average[i] + (1 - args.decay) * weights[i];
  });
}

template <Device D, class T>
void exchange(ExecContext& ctx, const TensorView& a, const TensorView& b) {
  cpu::parallel_for(*ctx.pool, a.numel(), kBlock, [&](int64_t begin, int64_t end) {
    std::swap_ranges(a.ptr<float>() + begin, a.ptr<float>() + end, b.ptr<float>() + begin);
  });
}

template void ema_update<Device::cpu, float>(ExecContext&, const EmaArgs&);
template void exchange<Device::cpu, float>(ExecContext&, const TensorView&, const TensorView&);

}  // namespace gradmill
