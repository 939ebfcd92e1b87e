// SPDX-License-Identifier: Apache-2.0
#include "model_files/gguf/gguf_model.h"

#include <algorithm>
#include <numeric>

#include "files/strict_json.h"
#include "model_files/gguf/gguf_config.h"
#include "model_files/gguf/gguf_names.h"
#include "model_files/gguf/gguf_types.h"
#include "model_files/model_config.h"

namespace gradmill {
namespace {

// The dtype that holds a tensor's values exactly; quantised types have none.
std::optional<DType> exact_dtype(uint32_t type) {
  switch (static_cast<GgmlType>(type)) {
    case GgmlType::f32:
      return DType::fp32;
    case GgmlType::f16:
      return DType::fp16;
    case GgmlType::bf16:
      return DType::bf16;
    default:
      return std::nullopt;
  }
}

}  // namespace

GgufModel::GgufModel(const std::filesystem::path& path)
    : mapping_(MappedFile(path)),
      file_(mapping_->bytes(), path.string()),
      config_(read_model_config(gguf_config_json(file_), path.string())) {
  add_tensors();
  check();
}

GgufModel::GgufModel(std::span<const std::byte> bytes, std::string_view where)
    : file_(bytes, where), config_(read_model_config(gguf_config_json(file_), where)) {
  add_tensors();
}

void GgufModel::add_tensors() {
  std::vector<std::pair<std::string, size_t>> names;
  for (size_t index = 0; index < file_.tensors().size(); ++index) {
    const std::string_view name = file_.tensors()[index].name;
    if (name == "rope_freqs.weight") continue;  // it is part of the config
    names.emplace_back(hf_name_of_gguf(*config_.family, name).value_or(std::string(name)), index);
  }
  std::sort(names.begin(), names.end());
  for (const auto& [name, index] : names) {
    if (!tensors_.empty() && tensors_.back().name == name) {
      throw file_.bad(fmt::format("tensor {} occurs twice", quote_for_message(name)));
    }
    const GgufTensor& stored = file_.tensors()[index];
    const GgmlBlock* block = find_ggml_block(stored.type);
    const Place place = place_of(index);
    const ParamNames& params = config_.family->params;
    const bool in_layer = name.starts_with(fmt::format("{}{}", params.prefix, params.layer));
    const bool swapped = params.layers_transposed && in_layer && stored.dims.size() == 2;
    tensors_.push_back({.name = name,
                        .dims = stored.dims,
                        .type = block != nullptr ? std::string(block->name) : fmt::format("type {}", stored.type),
                        .dtype = place.minus_one ? std::optional(DType::fp32) : exact_dtype(stored.type),
                        .readable = block != nullptr,
                        .swapped = swapped,
                        .file = file_.where()});
    places_.push_back(place);
  }
}

GgufModel::Place GgufModel::place_of(size_t tensor) const {
  Place place{.tensor = tensor};
  const GgufForm& form = config_.family->gguf;
  const GgufTensor& stored = file_.tensors()[tensor];
  place.minus_one = form.norms_hold_offset && stored.name.ends_with("norm.weight");
  if (form.rotated_rows && is_gguf_query_or_key(stored.name)) {
    const int64_t head_dim = config_.spec.head_dim;
    if (!stored.dims.empty() && stored.dims[0] % head_dim == 0) place.head_rows = head_dim;
  }
  return place;
}

void GgufModel::read_stored(size_t tensor, int64_t begin, int64_t end, float* out) const {
  const GgufTensor& stored = file_.tensors()[tensor];
  const GgmlBlock& block = *find_ggml_block(stored.type);
  const int64_t cols = stored.dims.empty() ? 1 : stored.dims.back();
  const size_t row_bytes = static_cast<size_t>(cols / block.values) * block.bytes;
  const std::span<const std::byte> bytes =
      stored.bytes.subspan(static_cast<size_t>(begin) * row_bytes, static_cast<size_t>(end - begin) * row_bytes);
  dequantise(block.type, bytes, out);
}

void GgufModel::read_rows(size_t index, int64_t begin, int64_t end, float* out) const {
  const Place& place = places_[index];
  const int64_t cols = tensors_[index].cols();
  // transformers stores the first elements of all pairs, then the second ones; the file stores pair by pair.
  const int64_t half = place.head_rows / 2;
  const auto stored_row = [&](int64_t row) {
    const int64_t in_head = row % place.head_rows;
    return row - in_head + 2 * (in_head % half) + in_head / half;
  };
  if (place.head_rows == 0) {
    read_stored(place.tensor, begin, end, out);
  } else if (tensors_[index].dims.size() == 1) {
    std::vector<float> values(static_cast<size_t>(cols));
    read_stored(place.tensor, 0, 1, values.data());
    for (int64_t i = 0; i < cols; ++i) out[i] = values[static_cast<size_t>(stored_row(i))];
  } else {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = stored_row(row);
      read_stored(place.tensor, from, from + 1, out + (row - begin) * cols);
    }
  }
  if (place.minus_one) {
    for (int64_t i = 0; i < (end - begin) * cols; ++i) out[i] -= 1;
  }
  check();
  // Once the last row has been read, none of the tensor is needed again, whatever the order of its rows.
  if (mapping_ && end == tensors_[index].rows()) mapping_->release(file_.tensors()[place.tensor].bytes);
}

}  // namespace gradmill
