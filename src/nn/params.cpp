// SPDX-License-Identifier: Apache-2.0
#include "nn/params.h"

#include <algorithm>
#include <cstring>

#include "core/rng.h"
#include "ops/convert.h"

namespace gradmill {
namespace {

TensorView flat_view(const TensorView& flat, const Segment& segment, const Shape& shape) {
  return flat.slice_rows(segment.begin, segment.begin + segment.size).reshape(shape);
}

void fill_normal(float* values, int64_t size, float std, uint64_t seed, uint32_t param) {
  for (int64_t i = 0; i < size; i += 4) {
    const RandomBlock words = philox(seed, {static_cast<uint32_t>(i / 4), param, 0, RngSite::kInit});
    const auto low = to_normal(words[0], words[1]), high = to_normal(words[2], words[3]);
    const float normals[4] = {low[0], low[1], high[0], high[1]};
    for (int64_t j = i; j < std::min(i + 4, size); ++j) values[j] = std * normals[j - i];
  }
}

}  // namespace

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
    const Segment* segment = table.segment(id);
    views_.push_back(segment ? flat_view(read, *segment, spec.shape())
                             : ctx.alloc(ctx.persistent, spec.shape(), dtype_, spec.name));
  }
}

TensorView Weights::master(ParamId id) const {
  const Segment* segment = table_->segment(id);
  return segment ? flat_view(master_, *segment, table_->spec(id).shape()) : TensorView{};
}

void Weights::set(ExecContext& ctx, ParamId id, const float* values) {
  const TensorView view = (*this)[id];
  const TensorView from(const_cast<float*>(values), DType::fp32, view.shape);
  if (const TensorView to = master(id); to.defined()) {
    std::memcpy(to.data, values, to.bytes());
    if (!compute_.defined()) return;
  }
  convert(ctx, {.from = from, .to = view});
}

void Weights::refresh_compute(ExecContext& ctx) {
  if (compute_.defined()) convert(ctx, {.from = master_, .to = compute_});
}

std::vector<float> Weights::get(ParamId id) const {
  const TensorView view = master(id);
  assert(view.defined());
  return {view.ptr<float>(), view.ptr<float>() + view.numel()};
}

void Weights::initialise(ExecContext& ctx, uint64_t seed) {
  std::vector<float> values;
  for (ParamId id = 0; id < table_->size(); ++id) {
    const ParamSpec& spec = table_->spec(id);
    const int64_t size = spec.numel();
    values.assign(static_cast<size_t>(size), spec.init == Init::ones ? 1.0f : 0.0f);
    if (spec.init == Init::normal) fill_normal(values.data(), size, spec.init_std, seed, static_cast<uint32_t>(id));
    set(ctx, id, values.data());
  }
}

Gradients::Gradients(ExecContext& ctx, const ParamTable& table) : table_(&table) {
  flat_ = ctx.alloc(ctx.persistent, {table.flat_size()}, DType::fp32, "gradients");
  // Padding between segments is never written, and must not disturb the norm.
  if (flat_.data) std::memset(flat_.data, 0, flat_.bytes());
  written_.resize(static_cast<size_t>(table.size()), false);
}

TensorView Gradients::view(ParamId id) const {
  const Segment* segment = table_->segment(id);
  return segment ? flat_view(flat_, *segment, table_->spec(id).shape()) : TensorView{};
}

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
