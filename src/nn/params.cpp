// SPDX-License-Identifier: Apache-2.0
#include "nn/params.h"

#include <algorithm>

#include "ops/convert.h"
#include "ops/init.h"
#include "ops/transfer.h"

namespace gradmill {
ParamId ParamTable::add(ParamSpec spec) {
  const auto id = static_cast<ParamId>(specs_.size());
  segment_of_.push_back(-1);
  if (spec.trainable) {
    segment_of_.back() = static_cast<int32_t>(segments_.size());
    const int64_t size = spec.numel();
    segments_.push_back({flat_size_, size, spec.rows, spec.cols, spec.is_matrix() ? kDecayGroup : kNoDecayGroup});
    flat_size_ += (size + kSegmentPadding - 1) / kSegmentPadding * kSegmentPadding;
  }
  specs_.push_back(std::move(spec));
  return id;
}

ParamId ParamTable::find(std::string_view name) const {
  const auto found =
      std::find_if(specs_.begin(), specs_.end(), [&](const ParamSpec& spec) { return spec.name == name; });
  if (found == specs_.end()) {
    throw usage_error(fmt::format("the model has no parameter '{}'", name), "check the model's settings");
  }
  return static_cast<ParamId>(found - specs_.begin());
}

const Segment* ParamTable::segment(ParamId id) const {
  const int32_t index = segment_of_[static_cast<size_t>(id)];
  return index < 0 ? nullptr : &segments_[static_cast<size_t>(index)];
}

TensorView ParamTable::view(ParamId id, const TensorView& flat) const {
  const Segment* found = segment(id);
  if (found == nullptr) return {};
  return flat.slice_rows(found->begin, found->begin + found->size).reshape(spec(id).shape());
}

int64_t ParamTable::num_parameters() const {
  int64_t count = 0;
  for (const ParamSpec& spec : specs_) count += spec.numel();
  return count;
}

Weights::Weights(ExecContext& ctx, const ParamTable& table, DType compute_dtype)
    : table_(&table), dtype_(compute_dtype) {
  const NameScope scope(ctx, "weights");
  master_ = ctx.alloc(ctx.persistent, {table.flat_size()}, DType::fp32, "masters");
  if (dtype_ != DType::fp32) compute_ = ctx.alloc(ctx.persistent, {table.flat_size()}, dtype_, "compute copies");
  const TensorView& read = compute_.defined() ? compute_ : master_;
  for (ParamId id = 0; id < table.size(); ++id) {
    const ParamSpec& spec = table.spec(id);
    views_.push_back(spec.trainable ? table.view(id, read)
                                    : ctx.alloc(ctx.persistent, spec.shape(), dtype_, spec.name));
  }
}

TensorView Weights::master(ParamId id) const { return table_->view(id, master_); }

void Weights::set(ExecContext& ctx, ParamId id, const float* values) {
  const TensorView to = master(id);
  assert(to.defined());
  copy_to_device(ctx, to, values);
  if (compute_.defined()) convert(ctx, {.from = to, .to = (*this)[id]});
}

void Weights::refresh_compute(ExecContext& ctx) {
  if (compute_.defined()) convert(ctx, {.from = master_, .to = compute_});
}

std::vector<float> Weights::get(ExecContext& ctx, ParamId id) const {
  const TensorView view = master(id);
  assert(view.defined());
  std::vector<float> values(static_cast<size_t>(view.numel()));
  copy_to_host(ctx, values.data(), view);
  return values;
}

void Weights::initialise(ExecContext& ctx, uint64_t seed) {
  for (ParamId id = 0; id < table_->size(); ++id) {
    const ParamSpec& spec = table_->spec(id);
    assert(spec.trainable);
    init_values(ctx, {.to = master(id),
                      .mean = spec.init == Init::ones ? 1.0f : 0.0f,
                      .std = spec.init == Init::normal ? spec.init_std : 0.0f,
                      .seed = seed,
                      .param = static_cast<uint32_t>(id)});
  }
  refresh_compute(ctx);
}

Gradients::Gradients(ExecContext& ctx, const ParamTable& table) : table_(&table) {
  flat_ = ctx.alloc(ctx.persistent, {table.flat_size()}, DType::fp32, "gradients");
  // Padding between segments is never written, and must not disturb the norm.
  if (!ctx.dry) fill_zero(ctx, flat_);
  written_.resize(static_cast<size_t>(table.size()), false);
}

TensorView Gradients::view(ParamId id) const { return table_->view(id, flat_); }

Gradients::Target Gradients::write(ParamId id) {
  if (!wants(id)) return {};
  const bool first = !written_[static_cast<size_t>(id)];
  written_[static_cast<size_t>(id)] = true;
  return {view(id), first ? 0.0f : 1.0f};
}

bool Gradients::all_written() const {
  for (ParamId id = 0; id < table_->size(); ++id) {
    if (wants(id) && !written_[static_cast<size_t>(id)]) return false;
  }
  return true;
}

}  // namespace gradmill
