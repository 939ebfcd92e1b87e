// SPDX-License-Identifier: Apache-2.0
// Copy with zero padding on the CPU.
#include <algorithm>

#include "cpu/reduce.h"
#include "ops/zero_extend.h"

namespace gradmill {

template <Device D, class T>
void zero_extend(ExecContext& ctx, const ZeroExtendArgs& args) {
  const T* from = args.from.ptr<T>();
  T* to = args.to.ptr<T>();
  const int64_t size = args.from.numel();
  cpu::parallel_for(*ctx.pool, args.to.numel(), cpu::rows_per_task(1), [&](int64_t begin, int64_t end) {
    const int64_t copied = std::clamp(size, begin, end);
    std::copy(from + begin, from + copied, to + begin);
    std::fill(to + copied, to + end, T(0.0f));
  });
}

template void zero_extend<Device::cpu, float>(ExecContext&, const ZeroExtendArgs&);
template void zero_extend<Device::cpu, Bf16>(ExecContext&, const ZeroExtendArgs&);
template void zero_extend<Device::cpu, Fp16>(ExecContext&, const ZeroExtendArgs&);

}  // namespace gradmill
