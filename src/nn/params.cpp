// SPDX-License-Identifier: Apache-2.0
#include "nn/params.h"

#include <algorithm>

#include "ops/convert.h"
#include "ops/init.h"
#include "ops/quantise.h"
#include "ops/transfer.h"

namespace gradmill {
namespace {

// A host tensor in another float type, or itself where it has that type.
class HostCopy {
 public:
  HostCopy(const TensorView& from, DType to) {
    if (from.dtype == to) {
      data_ = from.data;
      return;
    }
    bytes_.resize(static_cast<size_t>(from.numel()) * size_of(to));
    data_ = bytes_.data();
    read_as(from, [&](const auto* values) {
      write_as(to, [&](auto* out) {
        using Out = std::remove_pointer_t<decltype(out)>;
        for (int64_t i = 0; i < from.numel(); ++i) out[i] = Out(float(values[i]));
      });
    });
  }
  HostCopy(const HostCopy&) = delete;
  const void* data() const { return data_; }

 private:
  template <class Run>
  static void read_as(const TensorView& from, Run&& run) {
    if (from.dtype == DType::bf16) return run(from.ptr<Bf16>());
    if (from.dtype == DType::fp16) return run(from.ptr<Fp16>());
    run(from.ptr<float>());
  }
  template <class Run>
  void write_as(DType dtype, Run&& run) {
    if (dtype == DType::bf16) return run(reinterpret_cast<Bf16*>(bytes_.data()));
    if (dtype == DType::fp16) return run(reinterpret_cast<Fp16*>(bytes_.data()));
    run(reinterpret_cast<float*>(bytes_.data()));
  }

  std::vector<std::byte> bytes_;
  const void* data_ = nullptr;
};

InitArgs init_args(const ParamSpec& spec, const TensorView& to, uint64_t seed, ParamId id) {
  const bool random = spec.init == Init::normal || spec.init == Init::uniform;
  return {.to = to,
          .mean = spec.init == Init::ones ? 1.0f : 0.0f,
          .std = random ? spec.init_std : 0.0f,
          .uniform = spec.init == Init::uniform,
          .seed = seed,
          .param = static_cast<uint32_t>(id)};
}

}  // namespace

ParamId ParamTable::add(ParamSpec spec) {
  const auto id = static_cast<ParamId>(specs_.size());
  segment_of_.push_back(-1);
  if (!spec.beside_model && !plan_.trains(spec.name)) spec.trainable = false;
  assert(spec.format == WeightFormat::compute || !spec.trainable);
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

void ParamTable::check_plan() const {
  for (const auto& [name, slices] : plan_.linears) find(name + ".weight");
  for (const std::string& name : plan_.trained) find(name);
}

int64_t ParamTable::num_parameters() const {
  int64_t count = 0;
  for (const ParamSpec& spec : specs_) count += spec.trainable || !spec.beside_model ? spec.numel() : 0;
  return count;
}

Weights::Weights(ExecContext& ctx, const ParamTable& table, DType compute_dtype, const FrozenPlace& frozen)
    : table_(&table), dtype_(compute_dtype) {
  const NameScope scope(ctx, "weights");
  master_ = ctx.alloc(ctx.persistent, {table.flat_size()}, DType::fp32, "masters");
  if (dtype_ != DType::fp32) compute_ = ctx.alloc(ctx.persistent, {table.flat_size()}, dtype_, "compute copies");
  const TensorView& read = compute_.defined() ? compute_ : master_;
  for (ParamId id = 0; id < table.size(); ++id) {
    const ParamSpec& spec = table.spec(id);
    scales_.emplace_back();
    read_only_.push_back(false);
    views_.push_back(spec.trainable ? table.view(id, read) : frozen_view(ctx, spec, frozen));
  }
  if (!ctx.dry) clear_padding(ctx);
}

// The optimiser goes over what lies between segments, too, and nothing else writes there.
void Weights::clear_padding(ExecContext& ctx) {
  const std::vector<Segment>& segments = table_->segments();
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t end = segments[i].begin + segments[i].size;
    const int64_t next = i + 1 < segments.size() ? segments[i + 1].begin : table_->flat_size();
    if (next > end) fill_zero(ctx, master_.slice_rows(end, next));
  }
}

TensorView Weights::frozen_view(ExecContext& ctx, const ParamSpec& spec, const FrozenPlace& place) {
  const FrozenWeight* shared = place.shared != nullptr && !spec.beside_model
                                   ? place.shared->find(spec.name, spec.shape(), spec.format)
                                   : nullptr;
  if (shared == nullptr) {
    const bool elsewhere = place.arena != nullptr && !spec.beside_model;
    return allocate_frozen(ctx, spec, elsewhere ? *place.arena : ctx.persistent);
  }
  TensorView values = shared->values, scales = shared->scales;
  if (ctx.dry) values.data = scales.data = nullptr;
  scales_.back() = scales;
  read_only_.back() = true;
  return values;
}

std::map<std::string, FrozenWeight, std::less<>> Weights::share_frozen() {
  std::map<std::string, FrozenWeight, std::less<>> shared;
  for (ParamId id = 0; id < table_->size(); ++id) {
    const ParamSpec& spec = table_->spec(id);
    const auto index = static_cast<size_t>(id);
    if (spec.trainable || spec.beside_model) continue;
    shared[spec.name] = {spec.shape(), spec.format, views_[index], scales_[index]};
    read_only_[index] = true;
  }
  return shared;
}

TensorView Weights::allocate_frozen(ExecContext& ctx, const ParamSpec& spec, Arena& arena) {
  if (spec.format == WeightFormat::compute || spec.format == WeightFormat::fp32) {
    const DType dtype = spec.format == WeightFormat::fp32 ? DType::fp32 : dtype_;
    return ctx.alloc(arena, spec.shape(), dtype, spec.name);
  }
  const QuantisedShapes shapes = quantised_shapes(spec.format, spec.rows, spec.cols);
  scales_.back() = ctx.alloc(arena, shapes.scales, DType::fp32, spec.name + " scales");
  return ctx.alloc(arena, shapes.codes, DType::int8, spec.name + " codes");
}

TensorView Weights::plain(ExecContext& ctx, ParamId id) const {
  if (!is_quantised(id)) return (*this)[id];
  const ParamSpec& spec = table_->spec(id);
  const TensorView values = ctx.alloc_scratch(spec.shape(), dtype_, "dequantised weight");
  dequantise(ctx, {.values = values,
                   .codes = views_[static_cast<size_t>(id)],
                   .scales = scales_[static_cast<size_t>(id)],
                   .format = spec.format});
  return values;
}

TensorView Weights::master(ParamId id) const { return table_->view(id, master_); }

void Weights::load(ExecContext& ctx, ParamId id, const TensorView& host) {
  const ParamSpec& spec = table_->spec(id);
  assert(host.contiguous() && host.numel() == spec.numel() && !is_read_only(id));
  const TensorView master_view = master(id);
  const auto converted = [&](DType dtype) { return HostCopy(host, dtype); };
  if (master_view.defined()) {
    copy_to_device(ctx, master_view, converted(DType::fp32).data());
    if (compute_.defined()) convert(ctx, {.from = master_view, .to = (*this)[id]});
  } else if (is_quantised(id)) {
    const ArenaScope scope(ctx.scratch);
    const TensorView values = ctx.alloc_scratch(spec.shape(), dtype_, "weight to quantise");
    copy_to_device(ctx, values, converted(dtype_).data());
    quantise(ctx, {.values = values,
                   .codes = views_[static_cast<size_t>(id)],
                   .scales = scales_[static_cast<size_t>(id)],
                   .format = spec.format});
  } else {
    const TensorView to = (*this)[id];
    copy_to_device(ctx, to, converted(to.dtype).data());
  }
}

void Weights::set(ExecContext& ctx, ParamId id, const float* values) {
  load(ctx, id, TensorView(const_cast<float*>(values), DType::fp32, table_->spec(id).shape()));
}

void Weights::refresh_compute(ExecContext& ctx) {
  if (compute_.defined()) convert(ctx, {.from = master_, .to = compute_});
  refresh_base_norms(ctx);
  refresh_gains(ctx);
}

std::vector<float> Weights::get(ExecContext& ctx, ParamId id) const {
  const ArenaScope scope(ctx.scratch);
  const TensorView master_view = master(id), view = master_view.defined() ? master_view : plain(ctx, id);
  std::vector<std::byte> bytes(view.bytes());
  copy_to_host(ctx, bytes.data(), view);
  const HostCopy values(TensorView(bytes.data(), view.dtype, view.shape), DType::fp32);
  const auto* begin = static_cast<const float*>(values.data());
  return {begin, begin + view.numel()};
}

void Weights::initialise_frozen(ExecContext& ctx, ParamId id, uint64_t seed) {
  const ParamSpec& spec = table_->spec(id);
  const ArenaScope scope(ctx.scratch);
  const bool quantised = is_quantised(id);
  const TensorView values = quantised ? ctx.alloc_scratch(spec.shape(), dtype_, "weight to quantise") : (*this)[id];
  init_values(ctx, init_args(spec, values, seed, id));
  if (!quantised) return;
  quantise(ctx, {.values = values,
                 .codes = views_[static_cast<size_t>(id)],
                 .scales = scales_[static_cast<size_t>(id)],
                 .format = spec.format});
}

void Weights::initialise(ExecContext& ctx, uint64_t seed) {
  for (ParamId id = 0; id < table_->size(); ++id) {
    const ParamSpec& spec = table_->spec(id);
    if (!spec.trainable && !spec.beside_model && !is_read_only(id)) initialise_frozen(ctx, id, seed);
  }
  initialise_trained(ctx, seed);
}

void Weights::initialise_trained(ExecContext& ctx, uint64_t seed) {
  for (ParamId id = 0; id < table_->size(); ++id) {
    const ParamSpec& spec = table_->spec(id);
    if (spec.trainable) init_values(ctx, init_args(spec, master(id), seed, id));
  }
  refresh_compute(ctx);
  init_magnitudes(ctx);
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
