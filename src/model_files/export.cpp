// SPDX-License-Identifier: Apache-2.0
#include "model_files/export.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors_writer.h"
#include "core/error.h"
#include "files/fresh_target.h"
#include "model_files/file_text.h"
#include "model_files/float_rows.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

constexpr std::array kCompanions = {"tokenizer.json",
                                    "tokenizer.model",
                                    "spm.model",
                                    "spiece.model",
                                    "vocab.txt",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "chat_template.jinja",
                                    "modules.json",
                                    "sentence_bert_config.json",
                                    "config_sentence_transformers.json",
                                    "1_Pooling/config.json",
                                    "2_Normalize/config.json"};

// Models without a head are saved without the prefix that separates body and head.
std::string saved_name(const std::string& name, const HfConfig& config) {
  const std::string_view prefix = config.family->params.prefix;
  const bool bare = config.spec.head == HeadKind::none && name.starts_with(prefix);
  return bare ? name.substr(prefix.size()) : name;
}

void append_rows(OutputFile& file, std::span<const float> values, DType dtype, std::vector<std::byte>& buffer) {
  buffer.resize(values.size() * size_of(dtype));
  narrow(values, dtype, buffer.data());
  file.append(buffer);
}

void append_tensor(OutputFile& file, const ExportTensor& tensor) {
  const TensorSource& source = *tensor.source;
  const int64_t cols = source.tensors()[tensor.index].cols();
  std::vector<std::byte> buffer;
  if (!tensor.turned) {
    source.visit_rows(tensor.index, [&](int64_t, int64_t count, const float* values) {
      append_rows(file, {values, static_cast<size_t>(count * cols)}, tensor.dtype, buffer);
    });
    return;
  }
  const int64_t rows = source.tensors()[tensor.index].rows();
  std::vector<float> turned(static_cast<size_t>(rows * cols));
  source.visit_rows(tensor.index, [&](int64_t first, int64_t count, const float* values) {
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t col = 0; col < cols; ++col)
        turned[static_cast<size_t>(col * rows + first + row)] = values[row * cols + col];
    }
  });
  append_rows(file, turned, tensor.dtype, buffer);
}

std::vector<StreamedTensor> streamed(std::span<const ExportTensor> tensors) {
  std::vector<StreamedTensor> result;
  for (const ExportTensor& tensor : tensors) {
    result.push_back(
        {tensor.name, tensor.dtype, tensor.dims(), [&tensor](OutputFile& file) { append_tensor(file, tensor); }});
  }
  return result;
}

uint64_t bytes_of(const ExportTensor& tensor) {
  return StreamedTensor{tensor.name, tensor.dtype, tensor.dims(), {}}.bytes();
}

// The first tensor of each shard.
std::vector<size_t> shard_starts(const std::vector<ExportTensor>& tensors, uint64_t limit) {
  std::vector<size_t> starts = {0};
  uint64_t filled = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t bytes = bytes_of(tensors[i]);
    if (filled > 0 && filled + bytes > limit) {
      starts.push_back(i);
      filled = 0;
    }
    filled += bytes;
  }
  return starts;
}

void write_text(FileOps& ops, const fs::path& path, std::string_view content) {
  OutputFile file(ops, path);
  file.append(content);
  file.finish();
}

void write_file(FileOps& ops, const fs::path& path, std::span<const ExportTensor> tensors) {
  OutputFile file(ops, path);
  write_safetensors(file, streamed(tensors));
  file.finish();
}

void write_weights(FileOps& ops, const fs::path& folder, const std::vector<ExportTensor>& tensors, uint64_t limit) {
  std::vector<size_t> starts = shard_starts(tensors, limit);
  if (starts.size() == 1) return write_file(ops, folder / "model.safetensors", tensors);
  nlohmann::ordered_json map;
  uint64_t total = 0, parameters = 0;
  const size_t shards = starts.size();
  starts.push_back(tensors.size());
  for (size_t shard = 0; shard < shards; ++shard) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
    const std::span<const ExportTensor> part =
        std::span(tensors).subspan(starts[shard], starts[shard + 1] - starts[shard]);
    for (const ExportTensor& tensor : part) {
      map[tensor.name] = name;
      total += bytes_of(tensor);
      parameters += bytes_of(tensor) / size_of(tensor.dtype);
    }
    write_file(ops, folder / name, part);
  }
  const nlohmann::ordered_json index = {{"metadata", {{"total_parameters", parameters}, {"total_size", total}}},
                                        {"weight_map", std::move(map)}};
  write_text(ops, folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

// The dtype of most values.
DType main_dtype(const std::vector<ExportTensor>& tensors) {
  std::array<uint64_t, 3> values{};
  const auto place = [](DType dtype) -> size_t { return dtype == DType::bf16 ? 1 : dtype == DType::fp16 ? 2 : 0; };
  for (const ExportTensor& tensor : tensors) values[place(tensor.dtype)] += bytes_of(tensor) / size_of(tensor.dtype);
  constexpr std::array kTypes = {DType::fp32, DType::bf16, DType::fp16};
  return kTypes[static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin())];
}

}  // namespace

std::vector<int64_t> ExportTensor::dims() const {
  std::vector<int64_t> result = source->tensors()[index].dims;
  if (turned) std::reverse(result.begin(), result.end());
  return result;
}

std::vector<ExportTensor> export_tensors(const TensorSource& source, const HfConfig& config, const TensorSource* origin,
                                         std::optional<DType> dtype) {
  const Transformer model(config.spec);
  const WeightMap map = map_weights(source, *config.family, model, false);
  std::vector<ExportTensor> tensors;
  const auto add = [&](const std::string& name, const TensorSource& from, size_t index, bool turned) {
    const DType stored = from.tensors()[index].dtype.value_or(DType::fp32);
    tensors.push_back({saved_name(name, config), &from, index, turned, dtype.value_or(stored)});
  };
  for (ParamId id = 0; id < model.params().size(); ++id) {
    const std::vector<HfTensor> names = hf_tensors(*config.family, model, id);
    const std::vector<WeightPart>& parts = map.parts[static_cast<size_t>(id)];
    for (size_t i = 0; i < parts.size(); ++i) {
      add(names[i].name, source, parts[i].source, parts[i].transposed != names[i].transposed);
    }
  }
  // A multimodal model is exported as its text part alone.
  if (origin == nullptr || is_multimodal(config)) return tensors;
  for (const std::string& name : map_weights(*origin, *config.family, model, true).extra) {
    const size_t index = *origin->find(name);
    if (origin->tensors()[index].readable) add(name, *origin, index, false);
  }
  return tensors;
}

std::vector<ExportFile> companion_files(const fs::path& folder, const HfConfig& config) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  std::vector<ExportFile> files;
  const auto add = [&](const char* name) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name, ignored))
      files.push_back({name, read_small_file(folder / name, kMostBytes)});
  };
  for (const char* name : kCompanions) add(name);
  if (config.spec.head == HeadKind::causal_lm) add("generation_config.json");
  return files;
}

void export_model(const fs::path& folder, const TensorSource& source, const HfConfig& config,
                  const std::vector<ExportFile>& files, const TensorSource* origin, const ExportOptions& options,
                  FileOps& ops) {
  const std::vector<ExportTensor> tensors = export_tensors(source, config, origin, options.dtype);
  FreshTarget target(ops, folder, FreshTarget::Kind::folder);
  write_text(ops, target.path() / "config.json", write_model_config(config, main_dtype(tensors)));
  for (const ExportFile& file : files) {
    const fs::path path = target.path() / file.name;
    if (path.parent_path() != target.path() && !fs::exists(path.parent_path())) ops.make_folder(path.parent_path());
    write_text(ops, path, file.content);
  }
  write_weights(ops, target.path(), tensors, options.shard_bytes);
  target.publish();
}

}  // namespace gradmill
