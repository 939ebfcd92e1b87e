// SPDX-License-Identifier: Apache-2.0
// Parameters under Hugging Face's names.
#include <algorithm>

#include "model_files/float_rows.h"
#include "model_files/load_weights.h"
#include "ops/transfer.h"

namespace gradmill {

ParamSource::ParamSource(const Transformer& model, const Family& family, Fetch fetch, const TensorSource* origin)
    : fetch_(std::move(fetch)) {
  std::vector<std::pair<SourceTensor, Place>> found;
  for (ParamId id = 0; id < model.params().size(); ++id) {
    const ParamSpec& spec = model.params().spec(id);
    int64_t begin = 0;
    for (const HfTensor& tensor : hf_tensors(family, model, id)) {
      SourceTensor source{.name = tensor.name, .type = "F32", .dtype = DType::fp32, .file = "the model"};
      source.dims = !spec.is_matrix()   ? std::vector{tensor.rows}
                    : tensor.transposed ? std::vector{spec.cols, tensor.rows}
                                        : std::vector{tensor.rows, spec.cols};
      const auto stored = origin != nullptr ? origin->find(tensor.name) : std::nullopt;
      if (stored && origin->tensors()[*stored].dtype) source.dtype = origin->tensors()[*stored].dtype;
      found.push_back({std::move(source), {id, begin, tensor.transposed}});
      begin += tensor.rows;
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first.name < b.first.name; });
  for (auto& [tensor, place] : found) {
    tensors_.push_back(std::move(tensor));
    places_.push_back(place);
  }
}

void ParamSource::read_rows(size_t index, int64_t begin, int64_t end, float* out) const {
  const Place& place = places_[index];
  const SourceTensor& tensor = tensors_[index];
  if (!place.transposed) {
    const bool matrix = tensor.dims.size() == 2;
    const std::vector<float> values =
        fetch_(place.id, place.begin + (matrix ? begin : 0), place.begin + (matrix ? end : tensor.dims[0]));
    std::copy(values.begin(), values.end(), out);
    return;
  }
  // Columns [begin, end) of our rows.
  const int64_t rows = tensor.dims[1], cols = tensor.dims[0];
  const std::vector<float> values = fetch_(place.id, place.begin, place.begin + rows);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = begin; col < end; ++col) {
      out[(col - begin) * rows + row] = values[static_cast<size_t>(row * cols + col)];
    }
  }
}

ParamSource::Fetch fetch_weights(ExecContext& ctx, const Weights& weights) {
  return [&ctx, &weights](ParamId id, int64_t begin, int64_t end) {
    const TensorView master = weights.master(id);
    const TensorView view = (master.defined() ? master : weights[id]).slice_rows(begin, end);
    std::vector<float> values(static_cast<size_t>(view.numel()));
    if (view.dtype == DType::fp32) {
      copy_to_host(ctx, values.data(), view);
      return values;
    }
    std::vector<std::byte> stored(view.bytes());
    copy_to_host(ctx, stored.data(), view);
    widen(view.dtype == DType::bf16 ? FloatType::bf16 : FloatType::f16, stored, values.data());
    return values;
  };
}

ParamSource::Fetch fetch_flat(const ParamTable& params, const TensorView& flat) {
  return [&params, flat](ParamId id, int64_t begin, int64_t end) {
    const TensorView view = params.view(id, flat).slice_rows(begin, end);
    return std::vector<float>(view.ptr<float>(), view.ptr<float>() + view.numel());
  };
}

}  // namespace gradmill
