// SPDX-License-Identifier: Apache-2.0
// Sums of chunks: cost, dispatch and the CPU implementation.
#include "ops/partial_sums.h"

#include "cpu/reduce.h"

namespace gradmill {

void add_partial_sums(ExecContext& ctx, std::span<const PartialSum> sums) {
  if (sums.empty()) return;
  OpCost cost;
  for (const PartialSum& sum : sums) {
    if (!sum.out.defined()) continue;
    assert(sum.partials.shape.rank() == 2 && sum.out.numel() == sum.partials.cols());
    assert(sum.partials.dtype == DType::fp32 && sum.out.dtype == DType::fp32);
    cost.flops += double(sum.partials.numel());
    cost.bytes += double(sum.partials.bytes());
  }
  run_op(ctx, "add_partial_sums", DType::fp32, Fp32Only{}, cost,
         [&]<Device D, class T>() { add_partial_sums<D>(ctx, sums); });
}

template <>
void add_partial_sums<Device::cpu>(ExecContext& ctx, std::span<const PartialSum> sums) {
  for (const auto& [partials, out, beta] : sums) {
    if (!out.defined()) continue;
    cpu::add_partials(*ctx.pool, partials.ptr<float>(), partials.rows(), partials.cols(), out.ptr<float>(), beta);
  }
}

}  // namespace gradmill
