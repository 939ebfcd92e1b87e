// SPDX-License-Identifier: Apache-2.0
// Attention forward on the CPU: a task is one tile of queries of one head.
#include "ops/attention_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention_cpu.cpp"
#include "hwy/foreach_target.h"

#include "ops/attention_forward-inl.h"

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
#include "cpu/thread_pool.h"

namespace gradmill {
namespace {
using namespace attention;
HWY_EXPORT(attention_forward_tile);
}  // namespace

template <Device D, class T>
void attention_forward(ExecContext& ctx, const AttentionArgs& args, const TensorView&) {
  const auto tile = HWY_DYNAMIC_DISPATCH(attention_forward_tile);
  const AttentionDropout dropout = attention_dropout(ctx, args);
  const int64_t tiles = round_up(std::min(args.seq.max_len, args.q.rows()), kAttentionTile) / kAttentionTile;
  ctx.pool->run(args.seq.max_seqs * args.heads * tiles, [&](int64_t index) {
    const SequenceRows rows = sequence_rows(args.seq, index / tiles / args.heads);
    const int64_t query = index % tiles * kAttentionTile;
    const Range queries{query, std::min(query + kAttentionTile, rows.queries.size())};
    if (!queries.empty()) tile(dtype_of<T>, args, dropout, rows, index / tiles % args.heads, queries);
  });

  const Range padding{args.seq.cu_q.ptr<int32_t>()[args.seq.max_seqs], args.q.rows()};
  for (int64_t row = padding.begin; row < padding.end; ++row) {
    std::fill_n(args.out.row<T>(row), args.out.cols(), T{});
  }
  for (int64_t head = 0; head < args.heads; ++head) {
    std::fill(args.lse.row<float>(head) + padding.begin, args.lse.row<float>(head) + padding.end, 0.0f);
  }
}

template void attention_forward<Device::cpu, float>(ExecContext&, const AttentionArgs&, const TensorView&);
template void attention_forward<Device::cpu, Bf16>(ExecContext&, const AttentionArgs&, const TensorView&);
template void attention_forward<Device::cpu, Fp16>(ExecContext&, const AttentionArgs&, const TensorView&);

}  // namespace gradmill
#endif
