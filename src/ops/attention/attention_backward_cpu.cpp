// SPDX-License-Identifier: Apache-2.0
// Attention backward on the CPU. Each task is one key head of one sequence.
#include "ops/attention/attention_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_backward_cpu.cpp"
#include "hwy/foreach_target.h"

#include "ops/attention/attention_backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {

void attention_backward_keys(DType dtype, const AttentionGradArgs& args, const AttentionDropout& dropout,
                             const TensorView& accumulator, const SequenceRows& rows, int64_t kv_head) {
  visit_float(dtype, [&]<class T>(T) {
    NoTerms none;
    backward_keys<T>(args, dropout, accumulator, rows, kv_head, none);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/thread_pool.h"

namespace gradmill {
namespace {
using namespace attention;
HWY_EXPORT(attention_backward_keys);
}  // namespace

template <Device D, class T>
void attention_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& accumulator) {
  const auto keys = HWY_DYNAMIC_DISPATCH(attention_backward_keys);
  const AttentionArgs& forward = args.forward;
  const AttentionDropout dropout = attention_dropout(ctx, forward);
  ctx.pool->run(forward.seq.max_seqs * forward.kv_heads, [&](int64_t index) {
    const SequenceRows rows = sequence_rows(forward.seq, index / forward.kv_heads);
    keys(dtype_of<T>, args, dropout, accumulator, rows, index % forward.kv_heads);
  });
  clear_rows<T>(args.dq, forward.seq.cu_q.ptr<int32_t>()[forward.seq.max_seqs]);
  clear_rows<T>(args.dk, forward.seq.cu_kv.ptr<int32_t>()[forward.seq.max_seqs]);
  clear_rows<T>(args.dv, forward.seq.cu_kv.ptr<int32_t>()[forward.seq.max_seqs]);
}

template void attention_backward<Device::cpu, float>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void attention_backward<Device::cpu, Bf16>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void attention_backward<Device::cpu, Fp16>(ExecContext&, const AttentionGradArgs&, const TensorView&);

}  // namespace gradmill
#endif
