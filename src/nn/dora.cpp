// SPDX-License-Identifier: Apache-2.0
// DoRA's values that follow from weights: gain = magnitude / ‖W + scale · B A‖ of every row, and what makes it cheap.
// They change only when weights do, so once a step is enough. The norm is expanded at rank r:
// ‖W‖² + 2 s (W Aᵀ)·B + s² B (A Aᵀ) Bᵀ, one thin product a layer.
#include "nn/params.h"
#include "ops/dora_gain.h"
#include "ops/matmul/matmul.h"
#include "ops/row_norms.h"

namespace gradmill {
namespace {

// Calls visit(slice, its rows of the weight): slices of one layer share the values of a quantised weight.
template <class Visit>
void for_each_slice(ExecContext& ctx, const Weights& weights, Visit&& visit) {
  const std::vector<AdaptedSlice>& slices = weights.table().adapted_slices();
  if (!weights.table().plan().dora) return;
  for (size_t i = 0; i < slices.size();) {
    const ArenaScope scope(ctx.scratch);
    const ParamId id = slices[i].weight;
    const TensorView weight = weights.plain(ctx, id);
    for (; i < slices.size() && slices[i].weight == id; ++i) {
      visit(slices[i], weight.slice_rows(slices[i].row_begin, slices[i].row_end));
    }
  }
}

// gain (rows) fp32 = magnitude / norm; without a magnitude the norm itself.
void row_gain(ExecContext& ctx, const Weights& weights, const AdaptedSlice& slice, const TensorView& weight,
              const TensorView& magnitude, const TensorView& gain) {
  const ArenaScope scope(ctx.scratch);
  const TensorView a = weights[slice.a].slice_rows(slice.rank_begin, slice.rank_begin + slice.rank);
  const TensorView gram = ctx.alloc_scratch({slice.rank, slice.rank}, DType::fp32, "A Aᵀ");
  const TensorView product = ctx.alloc_scratch({weight.rows(), slice.rank}, DType::fp32, "W Aᵀ");
  matmul(ctx, {.a = a, .b = a, .c = gram, .transpose_b = true});
  matmul(ctx, {.a = weight, .b = a, .c = product, .transpose_b = true});
  dora_gain(ctx, {.base_norms = weights[slice.base_norms],
                  .product = product,
                  .gram = gram,
                  .b = weights[slice.b],
                  .magnitude = magnitude,
                  .gain = gain,
                  .scale = slice.scale});
}

}  // namespace

void Weights::refresh_base_norms(ExecContext& ctx) const {
  for_each_slice(ctx, *this, [&](const AdaptedSlice& slice, const TensorView& weight) {
    row_norms(ctx, {.x = weight, .squares = (*this)[slice.base_norms]});
  });
}

void Weights::refresh_gains(ExecContext& ctx) const {
  for_each_slice(ctx, *this, [&](const AdaptedSlice& slice, const TensorView& weight) {
    // The master: a magnitude in the compute dtype would move every row of the base by its rounding.
    row_gain(ctx, *this, slice, weight, master(slice.magnitude), (*this)[slice.gain]);
  });
}

void Weights::init_magnitudes(ExecContext& ctx) const {
  for_each_slice(ctx, *this, [&](const AdaptedSlice& slice, const TensorView& weight) {
    row_gain(ctx, *this, slice, weight, {}, master(slice.magnitude));
    row_gain(ctx, *this, slice, weight, master(slice.magnitude), (*this)[slice.gain]);
  });
}

}  // namespace gradmill
