// SPDX-License-Identifier: Apache-2.0
// Pass: what a layer needs to run once over a micro-batch.
#pragma once

#include "core/exec_context.h"
#include "core/seq_layout.h"
#include "nn/params.h"
#include "nn/save_policy.h"

namespace gradmill {

// Room that the parts of one adapter's backward share (see Adapter::low_rank_gradient).
struct AdapterCache {
  TensorView room;  // (N, the widest adapter's rank); undefined: each part works for itself
  const void *owner = nullptr, *dy = nullptr;
  bool for_input = false;
};

struct Pass {
  ExecContext& ctx;
  const Weights& weights;
  Gradients* grads = nullptr;  // null: no backward
  SeqLayout seq;
  SavePolicy policy = SavePolicy::forward_only();
  TensorView rope_table;  // (P, D) fp32; undefined without rotary positions

  AdapterCache adapters;

  bool training() const { return grads != nullptr; }
  // Memory for a slot: saved, or scratch until the caller's scope ends.
  TensorView slot(Slot slot, const Shape& shape, DType dtype, std::string_view what) {
    return ctx.alloc(policy.keeps(slot) ? ctx.saved : ctx.scratch, shape, dtype, what);
  }
  // Memory until the caller's scope ends, in the compute dtype.
  TensorView scratch(const Shape& shape, std::string_view what) {
    return ctx.alloc_scratch(shape, weights.dtype(), what);
  }
};

}  // namespace gradmill
