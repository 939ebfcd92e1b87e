// SPDX-License-Identifier: Apache-2.0
#include "run/export_model.h"

#include <memory>

#include "adapters/merge.h"
#include "adapters/peft_folder.h"
#include "files/fresh_target.h"
#include "files/output_file.h"
#include "model_files/export.h"
#include "model_files/gguf/gguf_export.h"
#include "model_files/load_weights.h"
#include "model_files/open_model.h"
#include "run/loaded_run.h"
#include "run/model_folder.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

// The model to export. The checkpoint stays open because its state file has the averages.
struct Origin : OpenedModel {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Transformer> model;
  std::unique_ptr<LoadedRun> adapted;  // adapters beside their base
};

// A parameter is merged as a whole and then fetched in parts.
ParamSource::Fetch fetch_merged(LoadedRun& run) {
  struct Cache {
    ParamId id = kNoParam;
    std::vector<float> values;
  };
  return [&run, cache = std::make_shared<Cache>()](ParamId id, int64_t begin, int64_t end) {
    if (cache->id != id) {
      Session& session = run.session();
      session.write_weights(
          [&](ExecContext& ctx, Weights& weights) { cache->values = merged_values(ctx, weights, id); });
      cache->id = id;
    }
    const ParamSpec& spec = run.model().params().spec(id);
    const int64_t cols = spec.is_matrix() ? spec.cols : 1;
    return std::vector<float>(cache->values.begin() + begin * cols, cache->values.begin() + end * cols);
  };
}

IfDamaged if_damaged(const ExportRequest& request) {
  return request.allow_older ? IfDamaged::use_older : IfDamaged::refuse;
}

// `folder` has the tokenizer's files if they are not with the adapters.
Origin open_adapted(const ExportRequest& request, fs::path folder = {}) {
  Origin origin;
  origin.adapted = std::make_unique<LoadedRun>(request.from, LoadedRun::Precision::exact, if_damaged(request));
  const RunModel& model = origin.adapted->run_model();
  origin.config = model.hf;
  if (folder.empty()) folder = origin.adapted->tokenizer().folder;
  origin.files = companion_files(folder, origin.config);
  origin.tensors = std::make_unique<ParamSource>(origin.adapted->model(), model.family(), fetch_merged(*origin.adapted),
                                                 model.weights.get());
  return origin;
}

std::string export_adapters(const ExportRequest& request) {
  LoadedRun run(request.from, LoadedRun::Precision::exact, if_damaged(request));
  const RunModel& model = run.run_model();
  if (!model.adapters) {
    throw usage_error(fmt::format("'{}' has no adapters", request.from.string()), "use --format hf");
  }
  const Session::HostState state = run.session().host_state();
  FreshTarget target(real_file_ops(), request.to, FreshTarget::Kind::folder);
  write_peft_folder(target.path(), model.adapters->config, model.family(), run.model(), state.masters);
  for (const CheckpointText& file : run.tokenizer().files) replace_file(target.path() / file.name, file.content);
  target.publish();
  return fmt::format("adapters of {} in {}", model.hf.architecture, request.to.string());
}

// If a run keeps averages, they are exported, because evaluations use them.
Origin open_run(const ExportRequest& request) {
  auto checkpoint = std::make_unique<Checkpoint>(open_checkpoint(request.from, if_damaged(request)));
  if (checkpoint->contains(kAdapterFile)) return open_adapted(request, checkpoint->folder());
  Origin origin{open_model(checkpoint->folder()), nullptr, nullptr, nullptr};
  origin.model = std::make_unique<Transformer>(origin.config.spec);
  const TensorView averages = find_averages(*checkpoint, *origin.model);
  if (!averages.defined()) return origin;
  const auto fetch = [read = fetch_flat(origin.model->params(), averages), &file = checkpoint->tensors(kStateFile)](
                         ParamId id, int64_t begin, int64_t end) {
    std::vector<float> values = read(id, begin, end);
    file.check();
    return values;
  };
  origin.tensors = std::make_unique<ParamSource>(*origin.model, *origin.config.family, fetch);
  origin.checkpoint = std::move(checkpoint);
  return origin;
}

Origin open_origin(const ExportRequest& request) {
  const fs::path& path = request.from;
  std::error_code ignored;
  const bool checkpoint = fs::exists(path / "state.json", ignored), config = fs::exists(path / "config.json", ignored);
  if (is_peft_path(path)) return open_adapted(request);
  if (path.extension() == ".gguf" || (config && !checkpoint)) return {open_model(path), nullptr, nullptr};
  return open_run(request);
}

std::optional<DType> folder_dtype(const std::string& name) {
  if (name == "auto") return std::nullopt;
  if (name == "f32") return DType::fp32;
  if (name == "bf16") return DType::bf16;
  if (name == "f16") return DType::fp16;
  throw usage_error(fmt::format("dtype '{}' is not supported for hf", name), "choose one of: auto, f32, bf16, f16");
}

GgmlType gguf_dtype(const std::string& name) {
  if (name == "auto" || name == "f16") return GgmlType::f16;
  if (name == "f32") return GgmlType::f32;
  if (name == "bf16") return GgmlType::bf16;
  if (name == "q8_0") return GgmlType::q8_0;
  throw usage_error(fmt::format("dtype '{}' is not supported for gguf", name),
                    "choose one of: auto (f16), f32, bf16, f16, q8_0");
}

}  // namespace

std::string export_model_to(const ExportRequest& request) {
  if (request.format == "peft") return export_adapters(request);
  if (request.format != "hf" && request.format != "gguf") {
    throw usage_error(fmt::format("unknown format '{}'", request.format), "choose one of: hf, gguf, peft");
  }
  const bool gguf = request.format == "gguf";
  const GgmlType type = gguf ? gguf_dtype(request.dtype) : GgmlType::f16;
  const std::optional<DType> dtype = gguf ? std::nullopt : folder_dtype(request.dtype);
  const Origin origin = open_origin(request);
  if (gguf) {
    const fs::path name = request.from.has_filename() ? request.from.filename() : request.from.parent_path().filename();
    export_gguf(request.to, *origin.tensors, origin.config, origin.files, {type, name.string()});
  } else {
    export_model(request.to, *origin.tensors, origin.config, origin.files, origin.tensors.get(),
                 {.dtype = dtype, .shard_bytes = request.shard_bytes});
  }
  return fmt::format("{} ({}, {} tensors) as {} in {}", origin.config.architecture, origin.config.family->name,
                     origin.tensors->tensors().size(), request.format, request.to.string());
}

}  // namespace gradmill
