// SPDX-License-Identifier: Apache-2.0
// Pass: what a layer needs to run once over a micro-batch.
#pragma once

#include "core/exec_context.h"
#include "core/seq_layout.h"
#include "nn/deferred_gradients.h"
#include "nn/params.h"
#include "nn/save_policy.h"

namespace gradmill {

// What layers know about positions. Constant, in persistent memory; undefined where the model has no use for it.
struct PositionTables {
  TensorView rope;        // (P, D) fp32: cosines in the first half of a row, sines in the second
  TensorView local_rope;  // the table of local layers, where theirs differs
  TensorView buckets;     // (2 P - 1) int32: which row of the relative table a distance has
};

// A buffer that the parts of one adapter's backward share (see Adapter::low_rank_gradient).
struct AdapterCache {
  TensorView buffer;  // (N, the widest adapter's rank); undefined: each part works for itself
  const void *owner = nullptr, *dy = nullptr;
  bool for_input = false;
};

struct Pass {
  ExecContext& ctx;
  const Weights& weights;
  Gradients* grads = nullptr;  // null: no backward
  SeqLayout seq;
  SavePolicy policy = SavePolicy::forward_only();
  PositionTables tables;
  TensorView relative;       // (R, C) the table of relative positions as layers read it, where the model has one
  TensorView drelative;      // (R, C) fp32: the sum of its gradients so far, or undefined: not wanted
  TensorView class_weights;  // (labels) fp32 factors of a classifier's losses by class, or undefined

  AdapterCache adapters;
  DeferredGradients deferred;

  bool training() const { return grads != nullptr; }
  // Memory for a slot: `buffer` if there is one (see SharedBuffers), saved, or scratch until the caller's scope ends.
  TensorView slot(Slot slot, const Shape& shape, DType dtype, std::string_view what, const TensorView& buffer = {}) {
    return buffer.defined() ? buffer : ctx.alloc(policy.keeps(slot) ? ctx.saved : ctx.scratch, shape, dtype, what);
  }
  // Memory until the caller's scope ends, in the compute dtype.
  TensorView scratch(const Shape& shape, std::string_view what) {
    return ctx.alloc_scratch(shape, weights.dtype(), what);
  }
};

}  // namespace gradmill
