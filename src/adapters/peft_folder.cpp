// SPDX-License-Identifier: Apache-2.0
#include "adapters/peft_folder.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <unordered_set>

#include "core/error.h"

namespace gradmill {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::uintmax_t kMaxConfigBytes = 1 << 20;
constexpr std::string_view kFix = "this adapter was made for another model, or with other settings";

// The tensor of the model's files that a slice of a weight corresponds to.
HfTensor tensor_of(const Family& family, const Transformer& model, const AdaptedSlice& slice) {
  int64_t begin = 0;
  for (HfTensor& part : hf_tensors(family, model, slice.weight)) {
    if (begin == slice.row_begin && begin + part.rows == slice.row_end) return std::move(part);
    begin += part.rows;
  }
  throw usage_error(fmt::format("the adapter of '{}' does not match a layer of the model's files",
                                model.params().spec(slice.weight).name),
                    "resolve the adapter's config for this family");
}

void add_slice_tensors(const AdaptedSlice& slice, const HfTensor& tensor, std::vector<PeftTensor>& tensors) {
  const std::string module = std::string(kPrefix) + tensor.name.substr(0, tensor.name.rfind('.'));
  const int64_t rows = slice.row_end - slice.row_begin;
  tensors.push_back({module + ".lora_A.weight", slice.a, slice.rank_begin, slice.rank_begin + slice.rank});
  tensors.push_back({module + ".lora_B.weight", slice.b, 0, rows});
  if (slice.magnitude != kNoParam) {
    tensors.push_back({module + ".lora_magnitude_vector", slice.magnitude, 0, rows});
  }
}

TensorView view_of(const Transformer& model, const PeftTensor& tensor, const TensorView& masters) {
  return model.params().view(tensor.param, masters).slice_rows(tensor.begin, tensor.end);
}

Shape stored_shape(const PeftTensor& tensor, const TensorView& view) {
  return tensor.transposed ? Shape{view.shape[1], view.shape[0]} : view.shape;
}

template <class T>
void copy_values(const TensorView& from, bool transposed, const TensorView& to) {
  const T* values = from.ptr<T>();
  float* out = to.ptr<float>();
  if (!transposed) {
    for (int64_t i = 0; i < to.numel(); ++i) out[i] = float(values[i]);
    return;
  }
  for (int64_t r = 0; r < to.rows(); ++r) {
    for (int64_t c = 0; c < to.cols(); ++c) out[r * to.cols() + c] = float(values[c * to.rows() + r]);
  }
}

void check_file(const SafeTensors& file, const std::vector<PeftTensor>& tensors, const Transformer& model,
                const TensorView& masters) {
  std::unordered_set<std::string_view> known;
  for (const PeftTensor& tensor : tensors) {
    known.insert(tensor.name);
    const TensorView stored = file.at(tensor.name);
    const Shape expected = stored_shape(tensor, view_of(model, tensor, masters));
    if (stored.shape != expected) {
      throw data_error(
          fmt::format("adapter tensor '{}' has shape {}, expected {}", tensor.name, stored.shape.str(), expected.str()),
          kFix);
    }
    if (stored.dtype != DType::fp32 && stored.dtype != DType::bf16 && stored.dtype != DType::fp16) {
      throw data_error(fmt::format("adapter tensor '{}' is stored as {}", tensor.name, name_of(stored.dtype)), kFix);
    }
  }
  for (const std::string& name : file.names()) {
    if (!known.contains(name)) {
      throw data_error(fmt::format("adapter tensor '{}' belongs to no adapted part of the model", name), kFix);
    }
  }
}

}  // namespace

std::vector<PeftTensor> peft_tensors(const Family& family, const Transformer& model) {
  std::vector<PeftTensor> tensors;
  const ParamTable& params = model.params();
  for (const AdaptedSlice& slice : params.adapted_slices()) {
    add_slice_tensors(slice, tensor_of(family, model, slice), tensors);
  }
  for (ParamId id = 0; id < params.size(); ++id) {
    if (!params.spec(id).trainable || params.spec(id).beside_model) continue;
    int64_t begin = 0;
    for (const HfTensor& part : hf_tensors(family, model, id)) {
      tensors.push_back({std::string(kPrefix) + part.name, id, begin, begin + part.rows, part.transposed});
      begin += part.rows;
    }
  }
  return tensors;
}

std::vector<NamedTensor> adapter_tensors(const Family& family, const Transformer& model, const TensorView& masters) {
  std::vector<NamedTensor> named;
  for (const PeftTensor& tensor : peft_tensors(family, model)) {
    named.push_back({tensor.name, view_of(model, tensor, masters), tensor.transposed});
  }
  return named;
}

void load_adapter_tensors(const SafeTensors& file, const Family& family, const Transformer& model,
                          const TensorView& masters) {
  const std::vector<PeftTensor> tensors = peft_tensors(family, model);
  check_file(file, tensors, model, masters);
  for (const PeftTensor& tensor : tensors) {
    const TensorView from = file.at(tensor.name), to = view_of(model, tensor, masters);
    if (from.dtype == DType::bf16) {
      copy_values<Bf16>(from, tensor.transposed, to);
    } else if (from.dtype == DType::fp16) {
      copy_values<Fp16>(from, tensor.transposed, to);
    } else {
      copy_values<float>(from, tensor.transposed, to);
    }
  }
  file.check();
}

AdapterConfig read_adapter_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kAdapterConfigFile;
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!file || error) throw data_error(fmt::format("cannot read {}", path.string()), "give a folder that PEFT made");
  if (bytes > kMaxConfigBytes) {
    throw data_error(fmt::format("{} is too large for a config", path.string()), "give a folder that PEFT made");
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return parse_adapter_config(text, path.string());
}

void write_peft_folder(const std::filesystem::path& folder, const AdapterConfig& config, const Family& family,
                       const Transformer& model, const TensorView& masters) {
  FileOps& ops = real_file_ops();
  const std::vector<AdaptedSlice>& slices = model.params().adapted_slices();
  const bool conv1d = std::any_of(slices.begin(), slices.end(), [&](const AdaptedSlice& slice) {
    return tensor_of(family, model, slice).transposed;
  });
  OutputFile text(ops, folder / kAdapterConfigFile);
  text.append(adapter_config_json(config, conv1d));
  text.finish();
  OutputFile tensors(ops, folder / kAdapterFile);
  write_safetensors(tensors, adapter_tensors(family, model, masters));
  tensors.finish();
}

}  // namespace gradmill
