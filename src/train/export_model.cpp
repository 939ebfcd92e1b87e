// SPDX-License-Identifier: Apache-2.0
#include "train/export_model.h"

#include <memory>

#include "hf/gguf_export.h"
#include "hf/load_weights.h"
#include "hf/open_model.h"
#include "train/loaded_run.h"
#include "train/model_folder.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

// What is exported. A checkpoint's averages lie in its state file, so that stays open.
struct Origin : OpenedModel {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Transformer> model;
};

// Averages, where a run keeps them, are what it is judged by.
Origin open_run(const fs::path& path) {
  auto checkpoint = std::make_unique<Checkpoint>(open_checkpoint(path));
  Origin origin{open_model(checkpoint->folder()), nullptr, nullptr};
  const SafeTensors& state = checkpoint->tensors(kStateFile);
  if (!state.contains(Session::kAverageName)) return origin;
  origin.model = std::make_unique<Transformer>(origin.config.spec);
  const TensorView averages = state.at(Session::kAverageName);
  if (averages.dtype != DType::fp32 || averages.numel() != origin.model->params().flat_size()) {
    throw data_error(fmt::format("{}: {} is not of this model's size", (checkpoint->folder() / kStateFile).string(),
                                 Session::kAverageName),
                     "export another checkpoint");
  }
  origin.tensors =
      std::make_unique<ParamSource>(*origin.model, origin.config.family, fetch_flat(origin.model->params(), averages));
  origin.checkpoint = std::move(checkpoint);
  return origin;
}

Origin open_origin(const fs::path& path) {
  std::error_code ignored;
  const bool checkpoint = fs::exists(path / "state.json", ignored), config = fs::exists(path / "config.json", ignored);
  if (path.extension() == ".gguf" || (config && !checkpoint)) return {open_model(path), nullptr, nullptr};
  return open_run(path);
}

std::optional<DType> folder_dtype(const std::string& name) {
  if (name == "auto") return std::nullopt;
  if (name == "f32") return DType::fp32;
  if (name == "bf16") return DType::bf16;
  if (name == "f16") return DType::fp16;
  throw usage_error(fmt::format("dtype '{}'", name), "for hf it is auto, f32, bf16 or f16");
}

GgmlType gguf_dtype(const std::string& name) {
  if (name == "auto" || name == "f16") return GgmlType::f16;
  if (name == "f32") return GgmlType::f32;
  if (name == "bf16") return GgmlType::bf16;
  if (name == "q8_0") return GgmlType::q8_0;
  throw usage_error(fmt::format("dtype '{}'", name), "for gguf it is auto (f16), f32, bf16, f16 or q8_0");
}

}  // namespace

std::string export_model_to(const ExportRequest& request) {
  if (request.format != "hf" && request.format != "gguf") {
    throw usage_error(fmt::format("format '{}'", request.format), "it is hf or gguf");
  }
  const bool gguf = request.format == "gguf";
  const GgmlType type = gguf ? gguf_dtype(request.dtype) : GgmlType::f16;
  const std::optional<DType> dtype = gguf ? std::nullopt : folder_dtype(request.dtype);
  const Origin origin = open_origin(request.from);
  if (gguf) {
    const fs::path name = request.from.has_filename() ? request.from.filename() : request.from.parent_path().filename();
    export_gguf(request.to, *origin.tensors, origin.config, origin.files, {type, name.string()});
  } else {
    export_model(request.to, *origin.tensors, origin.config, origin.files, origin.tensors.get(),
                 {.dtype = dtype, .shard_bytes = request.shard_bytes});
  }
  return fmt::format("{} ({}, {} tensors) as {} in {}", origin.config.architecture, name_of(origin.config.family),
                     origin.tensors->tensors().size(), request.format, request.to.string());
}

}  // namespace gradmill
