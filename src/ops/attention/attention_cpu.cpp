// SPDX-License-Identifier: Apache-2.0
// Attention forward on the CPU. Each task is one tile of queries of one head.
#include "ops/attention/attention_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_cpu.cpp"
#include "hwy/foreach_target.h"

#include "ops/attention/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {

void attention_forward_tile(DType dtype, const AttentionArgs& args, const AttentionDropout& dropout,
                            const SequenceRows& rows, int64_t head, Range queries) {
  visit_float(dtype, [&]<class T>(T) {
    NoTerms none;
    forward_tile<T>(args, dropout, rows, head, queries, none);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradmill {
namespace {
using namespace attention;
HWY_EXPORT(attention_forward_tile);
}  // namespace

template <Device D, class T>
void attention_forward(ExecContext& ctx, const AttentionArgs& args, const TensorView&) {
  const auto tile = HWY_DYNAMIC_DISPATCH(attention_forward_tile);
  const AttentionDropout dropout = attention_dropout(ctx, args);
  forward_tiles<T>(ctx, args, [&](const SequenceRows& rows, int64_t head, Range queries) {
    tile(dtype_of<T>, args, dropout, rows, head, queries);
  });
}

template void attention_forward<Device::cpu, float>(ExecContext&, const AttentionArgs&, const TensorView&);
template void attention_forward<Device::cpu, Bf16>(ExecContext&, const AttentionArgs&, const TensorView&);
template void attention_forward<Device::cpu, Fp16>(ExecContext&, const AttentionArgs&, const TensorView&);

}  // namespace gradmill
#endif
