// SPDX-License-Identifier: Apache-2.0
// N rows, R ranks of all slices.
#include "nn/adapter.h"

#include <cmath>

#include "core/rng.h"
#include "ops/adapter_add.h"
#include "ops/convert.h"
#include "ops/dora_backward.h"
#include "ops/dropout.h"
#include "ops/matmul/matmul.h"
#include "ops/scale_columns.h"

namespace gradmill {
namespace {

// c (N, R) for thin products over a long k: a GPU may split k only where the parts are added in fp32.
class ThinResult {
 public:
  ThinResult(Pass& pass, const TensorView& result) : ctx_(pass.ctx), result_(result), wide_(result) {
    if (ctx_.device.kind == DeviceKind::cuda && result.dtype != DType::fp32) {
      wide_ = ctx_.alloc_scratch(result.shape, DType::fp32, "low-rank product");
    }
  }
  const TensorView& to_fill() const { return wide_; }
  void finish() const {
    if (wide_.dtype != result_.dtype) convert(ctx_, {.from = wide_, .to = result_});
  }

 private:
  ExecContext& ctx_;
  TensorView result_, wide_;
};

}  // namespace

Adapter::Adapter(ParamTable& params, const Layer& layer) {
  const AdapterPlan& plan = params.plan();
  const auto found = plan.linears.find(layer.name);
  if (found == plan.linears.end()) return;
  assert(!params.spec(layer.weight).trainable);
  int64_t rows = 0;
  for (const SliceAdapter& slice : found->second) {
    rank_ += slice.rank;
    rows += slice.rows;
  }
  if (rows != layer.out) {
    throw usage_error(fmt::format("the adapters of '{}' are for {} outputs, it has {}", layer.name, rows, layer.out),
                      "resolve the adapter's config for this model");
  }
  if (rank_ == 0) return;
  dora_ = plan.dora;
  dropout_ = plan.dropout;
  dropout_site_ = RngSite::kAdapterSites + static_cast<uint32_t>(layer.weight);
  if (dora_ && dropout_ > 0) {
    throw usage_error("DoRA with adapter dropout needs every product of the base a second time",
                      "set the adapter's dropout to 0, or do without DoRA");
  }
  params.note_rank(rank_);
  // PEFT's first values: evenly in ±1/√in, so that h is about as large as x.
  a_ = params.add({.name = layer.name + ".lora_a",
                   .rows = rank_,
                   .cols = layer.in,
                   .init = Init::uniform,
                   .init_std = 1 / std::sqrt(static_cast<float>(layer.in)),
                   .beside_model = true});
  for (const SliceAdapter& slice : found->second) add_slice(params, layer, slice);
}

void Adapter::add_slice(ParamTable& params, const Layer& layer, const SliceAdapter& planned) {
  const Slice* last = slices_.empty() ? nullptr : &slices_.back();
  Slice slice{.begin = last ? last->end : 0, .rank_begin = last ? last->rank_begin + last->rank : 0};
  slice.end = slice.begin + planned.rows;
  slice.rank = planned.rank;
  slice.scale = planned.scale;
  if (planned.rank > 0) {
    const std::string name = layer.name + "." + planned.name;
    const auto beside = [&](const char* leaf, bool trainable) {
      return params.add({.name = name + leaf,
                         .cols = planned.rows,
                         .init = Init::ones,
                         .trainable = trainable,
                         .beside_model = true,
                         .format = trainable ? WeightFormat::compute : WeightFormat::fp32});
    };
    slice.b = params.add({.name = name + ".lora_b",
                          .rows = planned.rows,
                          .cols = planned.rank,
                          .init = Init::zeros,
                          .beside_model = true});
    if (dora_) slice.magnitude = beside(".magnitude", true);
    if (dora_) slice.gain = beside(".gain", false);
    params.add_adapted_slice({.weight = layer.weight,
                              .row_begin = slice.begin,
                              .row_end = slice.end,
                              .a = a_,
                              .rank_begin = slice.rank_begin,
                              .rank = slice.rank,
                              .b = slice.b,
                              .magnitude = slice.magnitude,
                              .base_norms = dora_ ? beside(".base_norms", false) : kNoParam,
                              .gain = slice.gain,
                              .scale = slice.scale});
  }
  slices_.push_back(slice);
}

TensorView Adapter::dropped(Pass& pass, const TensorView& x) const {
  if (dropout_ == 0 || !pass.training()) return x;
  const TensorView y = pass.scratch(x.shape, "dropped");
  dropout(pass.ctx, {.x = x, .y = y, .site = dropout_site_, .probability = dropout_});
  return y;
}

TensorView Adapter::low_rank_input(Pass& pass, const TensorView& x) const {
  const TensorView h = pass.scratch({x.rows(), rank_}, "low-rank input");
  const ArenaScope scope(pass.ctx.scratch);
  const ThinResult product(pass, h);
  matmul(pass.ctx, {.a = x, .b = pass.weights[a_], .c = product.to_fill(), .transpose_b = true});
  product.finish();
  return h;
}

// s · dy B (N, R). Both parts of a layer's backward need it: the second part finds what the first one computed, if no
// other adapter came in between. Therefore every dy must go through both parts before its memory gets other values.
TensorView Adapter::low_rank_gradient(Pass& pass, const TensorView& dy, Part part) const {
  AdapterCache& cache = pass.adapters;
  const bool has_buffer = cache.buffer.defined() && cache.buffer.rows() >= dy.rows();
  const TensorView dh = has_buffer ? cache.buffer.slice_rows(0, dy.rows()).slice_cols(0, rank_)
                                   : pass.scratch({dy.rows(), rank_}, "low-rank gradient");
  if (has_buffer) {
    const bool known = cache.owner == this && cache.dy == dy.data && cache.for_input != (part == Part::input);
    cache.owner = known ? nullptr : this;
    cache.dy = dy.data;
    cache.for_input = part == Part::input;
    if (known) return dh;
  }
  const ArenaScope scope(pass.ctx.scratch);
  const ThinResult product(pass, dh);
  for (const Slice& slice : slices_) {
    if (slice.rank == 0) continue;
    matmul(pass.ctx, {.a = dy.slice_cols(slice.begin, slice.end),
                      .b = pass.weights[slice.b],
                      .c = product.to_fill().slice_cols(slice.rank_begin, slice.rank_begin + slice.rank),
                      .alpha = slice.scale});
  }
  product.finish();
  return dh;
}

void Adapter::forward(Pass& pass, const TensorView& x, const TensorView& bias, const TensorView& y,
                      const TensorView& kept) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView h = low_rank_input(pass, dropped(pass, x));
  for (const Slice& slice : slices_) {
    const auto columns = [&](const TensorView& view) {
      return view.defined() ? view.slice_cols(slice.begin, slice.end) : TensorView{};
    };
    const TensorView slice_bias = bias.defined() ? bias.slice_rows(slice.begin, slice.end) : TensorView{};
    const TensorView out = columns(y);
    if (slice.rank > 0) {
      adapter_add(pass.ctx, {.y = out,
                             .h = h.slice_cols(slice.rank_begin, slice.rank_begin + slice.rank),
                             .b = pass.weights[slice.b],
                             .scale = slice.scale,
                             .gain = slice.gain == kNoParam ? TensorView{} : pass.weights[slice.gain],
                             .bias = slice_bias,
                             .kept = columns(kept)});
    } else if (bias.defined() || kept.defined()) {
      scale_columns(pass.ctx, {.x = out, .bias = slice_bias, .y = out, .copy = columns(kept)});
    }
  }
}

void Adapter::backward_magnitude(Pass& pass, const TensorView& y, const TensorView& bias, const TensorView& dy,
                                 const TensorView& dz) const {
  for (const Slice& slice : slices_) {
    const TensorView from = dy.slice_cols(slice.begin, slice.end), to = dz.slice_cols(slice.begin, slice.end);
    if (slice.rank == 0) {
      scale_columns(pass.ctx, {.x = from, .y = to});
      continue;
    }
    const auto target = pass.grads->write(slice.magnitude);
    dora_backward(pass.ctx, {.y = y.slice_cols(slice.begin, slice.end),
                             .dy = from,
                             .gain = pass.weights[slice.gain],
                             .magnitude = pass.weights.master(slice.magnitude),
                             .bias = bias.defined() ? bias.slice_rows(slice.begin, slice.end) : TensorView{},
                             .dz = to,
                             .dmagnitude = target.grad,
                             .beta = target.beta});
  }
}

void Adapter::scale_gradient(Pass& pass, const TensorView& dy, const TensorView& dz) const {
  for (const Slice& slice : slices_) {
    scale_columns(pass.ctx, {.x = dy.slice_cols(slice.begin, slice.end),
                             .gain = slice.gain == kNoParam ? TensorView{} : pass.weights[slice.gain],
                             .y = dz.slice_cols(slice.begin, slice.end)});
  }
}

void Adapter::backward_input(Pass& pass, const TensorView& dy, const TensorView& dx) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView dh = low_rank_gradient(pass, dy, Part::input);
  if (dropout_ == 0) {
    matmul(pass.ctx, {.a = dh, .b = pass.weights[a_], .c = dx, .beta = 1});
    return;
  }
  const TensorView dx_dropped = pass.scratch(dx.shape, "d dropped");
  matmul(pass.ctx, {.a = dh, .b = pass.weights[a_], .c = dx_dropped});
  dropout(pass.ctx, {.x = dx_dropped, .y = dx, .site = dropout_site_, .probability = dropout_, .add = true});
}

void Adapter::backward_weight(Pass& pass, const TensorView& x, const TensorView& dy) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView input = dropped(pass, x), h = low_rank_input(pass, input);
  const TensorView dh = low_rank_gradient(pass, dy, Part::weight);
  const auto da = pass.grads->write(a_);
  matmul(pass.ctx, {.a = dh, .b = input, .c = da.grad, .transpose_a = true, .beta = da.beta});
  for (const Slice& slice : slices_) {
    if (slice.rank == 0) continue;
    const auto db = pass.grads->write(slice.b);
    matmul(pass.ctx, {.a = dy.slice_cols(slice.begin, slice.end),
                      .b = h.slice_cols(slice.rank_begin, slice.rank_begin + slice.rank),
                      .c = db.grad,
                      .transpose_a = true,
                      .alpha = slice.scale,
                      .beta = db.beta});
  }
}

}  // namespace gradmill
