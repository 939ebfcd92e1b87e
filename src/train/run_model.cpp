// SPDX-License-Identifier: Apache-2.0
#include "train/run_model.h"

#include <algorithm>
#include <fstream>

#include "adapters/peft_folder.h"
#include "adapters/resolve.h"
#include "core/error.h"
#include "data/file_io.h"
#include "data/sha256.h"
#include "hf/gguf_model.h"
#include "hf/load_weights.h"
#include "hf/model_folder.h"
#include "nn/dora.h"
#include "train/class_settings.h"
#include "train/model_folder.h"
#include "train/run_options.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

// As transformers' classes for sequences have it.
void set_classifier(TransformerSpec& spec, int64_t outputs) {
  const bool encoder = !spec.causal;
  spec.head = HeadKind::classifier;
  spec.labels = outputs;
  spec.pooling = encoder ? Pooling::first : Pooling::last;
  spec.pooler = encoder ? PoolerKind::tanh : PoolerKind::none;
  spec.classifier_bias = encoder;
}

struct ModelFiles {
  HfConfig config;
  std::shared_ptr<TensorSource> tensors;
};

ModelFiles open_files(const fs::path& path, bool with_tensors) {
  if (is_gguf(path)) {
    auto model = std::make_shared<GgufModel>(path);
    return {model->config(), with_tensors ? model : nullptr};
  }
  ModelFiles files{read_folder_config(path), nullptr};
  if (with_tensors) files.tensors = std::make_shared<FolderTensors>(path);
  return files;
}

void set_task_head(HfConfig& config, const RunTask& task) {
  if (task.is_language()) {
    const HeadKind head = task.is_masked() ? HeadKind::masked_lm : HeadKind::causal_lm;
    if (config.spec.head != head) set_head(config, head);
    return;
  }
  const bool classes = task.kind == RunTask::Kind::classes;
  const auto names = task.labels.names();
  set_head(config, HeadKind::classifier,
           classes ? std::vector<std::string>(names.begin(), names.end()) : std::vector<std::string>{"LABEL_0"});
  config.problem_type = classes ? "single_label_classification" : "regression";
}

void check_fits(const RunConfig& config, const HfConfig& hf, int64_t vocab) {
  check_tokenizer(hf, vocab, config.model.path);
  if (config.model.context > hf.spec.max_positions) {
    throw usage_error(fmt::format("model.context is {}, and '{}' has {} positions", config.model.context,
                                  config.model.path, hf.spec.max_positions),
                      fmt::format("use model.context={} or less", hf.spec.max_positions));
  }
}

std::string last_bytes(const fs::path& path, int64_t count) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(-count, std::ios::end);
  std::string bytes(static_cast<size_t>(count), 0);
  file.read(bytes.data(), count);
  return bytes;
}

// Sizes and both ends of every file: other weights differ there, and hashing all of an 8B model takes a minute.
std::string fingerprint(const fs::path& path) {
  constexpr int64_t kEnd = int64_t{1} << 20;
  std::vector<fs::path> files;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    for (const auto& entry : fs::directory_iterator(path, ignored)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  Sha256 hash;
  for (const fs::path& file : files) {
    const auto size = static_cast<int64_t>(fs::file_size(file, ignored));
    hash.add(fmt::format("{} {}\n", file.filename().string(), size));
    hash.add(read_bytes(file, std::min(size, kEnd)));
    hash.add(last_bytes(file, std::min(size, kEnd)));
  }
  return hash.hex();
}

// Of adapters that somebody has trained before.
AdapterConfig kept_config(const RunConfig& config, const std::string& task_type) {
  const std::string& folder = config.adapter.path;
  AdapterConfig adapter = read_adapter_config(folder);
  if (!adapter.task_type.empty() && adapter.task_type != task_type) {
    throw usage_error(fmt::format("the adapters in '{}' are for {}, not for {}", folder, adapter.task_type, task_type),
                      "set data.task to what they were trained for, or train new ones");
  }
  if (adapter.dora && adapter.dropout > 0) {
    throw usage_error(fmt::format("the adapters in '{}' are DoRA with dropout, which is not supported", folder),
                      "set lora_dropout to 0 in its adapter_config.json");
  }
  adapter.task_type = task_type;
  adapter.base_model = config.model.path;
  return adapter;
}

AdapterConfig adapter_config(const RunConfig& config, const RunTask& task) {
  const AdapterSettings& settings = config.adapter;
  const std::string task_type = task.is_masked() ? "" : task.is_language() ? "CAUSAL_LM" : "SEQ_CLS";
  if (!settings.path.empty()) return kept_config(config, task_type);
  AdapterConfig adapter{.task_type = task_type,
                        .base_model = config.model.path,
                        .rank = settings.rank,
                        .alpha = settings.alpha,
                        .dropout = settings.dropout,
                        .rslora = settings.rslora,
                        .dora = settings.kind == "dora"};
  constexpr const char* kOfExpressions = "*+?()[]|\\^$";
  if (settings.targets == "all-linear") {
    adapter.targets.all_linear = true;
  } else if (settings.targets.find_first_of(kOfExpressions) != std::string::npos) {
    adapter.targets.expression = settings.targets;
  } else {
    adapter.targets.names = split_names(settings.targets);
  }
  adapter.modules_to_save = split_names(settings.modules_to_save);
  return adapter;
}

// A pooler that the files do not have would stay random for good.
void save_new_pooler(AdapterConfig& adapter, const RunModel& model, const Transformer& base) {
  if (model.weights == nullptr) return;
  const WeightMap map = map_weights(*model.weights, model.family, base, true);
  const bool is_new = std::any_of(map.fresh.begin(), map.fresh.end(),
                                  [&](ParamId id) { return base.params().spec(id).name.starts_with("pooler."); });
  const bool listed = std::find(adapter.modules_to_save.begin(), adapter.modules_to_save.end(), "pooler") !=
                      adapter.modules_to_save.end();
  if (is_new && !listed) adapter.modules_to_save.emplace_back("pooler");
}

void add_adapters(RunModel& model, const RunConfig& config) {
  const Transformer base(model.spec);
  AdapterConfig adapter = adapter_config(config, model.task);
  model.adapter_folder = config.adapter.path;
  if (model.adapter_folder.empty()) save_new_pooler(adapter, model, base);
  model.plan = resolve_adapters(adapter, model.family, base, base_format_by_name(config.model.load_in));
  model.adapter = std::move(adapter);
  model.base_hash = fingerprint(config.model.path);
}

RunModel from_config(HfConfig hf, const RunConfig& config, const RunTask& task, int64_t vocab) {
  set_task_head(hf, task);
  check_fits(config, hf, vocab);
  RunModel model{.family = hf.family, .spec = hf.spec, .plan = {}, .task = task, .hf = std::move(hf)};
  model.spec.dropout = config.model.dropout > 0;
  return model;
}

// Quantised parameters are taken as a whole; what the files do not have keeps its first values.
class SessionFiller final : public WeightsFiller {
 public:
  SessionFiller(ExecContext& ctx, Weights& weights, uint64_t seed)
      : WeightsFiller(ctx, weights, seed), ctx_(ctx), weights_(weights) {}

  void rows(ParamId id, int64_t begin, int64_t count, const float* values) override {
    if (!weights_.is_quantised(id)) return WeightsFiller::rows(id, begin, count, values);
    const ParamSpec& spec = weights_.table().spec(id);
    whole_.insert(whole_.end(), values, values + count * spec.cols);
    if (begin + count < spec.rows) return;
    weights_.set(ctx_, id, whole_.data());
    whole_.clear();
  }
  void fresh(ParamId id) override {
    const ParamSpec& spec = weights_.table().spec(id);
    if (!spec.trainable && !spec.beside_model) WeightsFiller::fresh(id);
  }
  void finish() override {
    weights_.refresh_compute(ctx_);
    init_magnitudes(ctx_, weights_);
  }

 private:
  ExecContext& ctx_;
  Weights& weights_;
  std::vector<float> whole_;
};

}  // namespace

std::string RunModel::config_json(std::optional<int32_t> eos) const {
  return hf ? write_model_config(*hf, DType::fp32) : model_config_json(spec, eos, task);
}

RunModel open_run_model(const RunConfig& config, const RunTask& task, int64_t vocab) {
  if (!config.model.path.empty()) {
    ModelFiles files = open_files(config.model.path, config.model.init == "file");
    RunModel model = from_config(std::move(files.config), config, task, vocab);
    model.weights = std::move(files.tensors);
    if (config.adapter.on()) add_adapters(model, config);
    return model;
  }
  RunModel model{.spec = model_spec(config, vocab), .task = task};
  if (!task.is_language()) set_classifier(model.spec, task.num_outputs());
  if (task.is_masked()) model.spec.head = HeadKind::masked_lm;
  model.family = family_of(model.spec);
  return model;
}

RunModel open_saved_model(const RunConfig& config, const RunTask& task, int64_t vocab, const Checkpoint& checkpoint) {
  if (config.model.path.empty() || config.adapter.on()) {
    RunConfig saved = config;
    if (!config.adapter.path.empty()) saved.adapter.path = checkpoint.folder().string();
    return open_run_model(saved, task, vocab);
  }
  return from_config(read_folder_config(checkpoint.folder()), config, task, vocab);
}

HfConfig open_model_config(const fs::path& path) { return open_files(path, false).config; }

std::optional<LabelMap> labels_of_model(const RunConfig& config) {
  if (config.model.path.empty()) return std::nullopt;
  const HfConfig hf = open_model_config(config.model.path);
  const auto is_generic = [](const std::string& name) { return name.starts_with("LABEL_"); };
  if (hf.labels.size() < 2 || std::any_of(hf.labels.begin(), hf.labels.end(), is_generic)) return std::nullopt;
  return LabelMap(hf.labels);
}

bool is_model_path(const fs::path& path) {
  std::error_code ignored;
  if (is_gguf(path)) return true;
  return fs::exists(path / "config.json", ignored) && !fs::exists(path / "state.json", ignored) &&
         !fs::exists(path / "checkpoints", ignored);
}

void check_model_path(const RunConfig& config, const RunTokenizer& tokenizer) {
  const RunTask task = task_without_data(config);
  const RunModel described = open_run_model(config, task, tokenizer.tokenizer->vocab_size());
  if (described.weights) map_weights(*described.weights, described.family, described.make(), task.may_have_new_head());
}

bool is_peft_path(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kAdapterConfigFile, ignored) && !fs::exists(path / "state.json", ignored);
}

namespace {

void load_base(const RunModel& described, const Transformer& model, Session& session,
               const std::function<void(const std::string&)>& note) {
  const WeightMap map = map_weights(*described.weights, described.family, model, described.task.may_have_new_head());
  std::string fresh;
  for (const ParamId id : map.fresh) {
    const ParamSpec& spec = model.params().spec(id);
    const bool comes_later = spec.trainable && !described.adapter_folder.empty();
    if (!spec.beside_model && !comes_later) fresh += (fresh.empty() ? "" : ", ") + spec.name;
  }
  if (!fresh.empty()) note("new, with random values: " + fresh);
  session.write_weights([&](ExecContext& ctx, Weights& weights) {
    SessionFiller filler(ctx, weights, session.options().seed);
    load_weights(*described.weights, map, model, filler);
  });
}

// A folder of PEFT's has all that trains.
void load_adapters(const RunModel& described, const Transformer& model, Session& session) {
  const ParamTable& params = model.params();
  std::vector<float> values(static_cast<size_t>(params.flat_size()));
  const TensorView flat(values.data(), DType::fp32, {params.flat_size()});
  load_adapter_tensors(SafeTensors(described.adapter_folder / kAdapterFile), described.family, model, flat);
  session.write_weights([&](ExecContext& ctx, Weights& weights) {
    for (ParamId id = 0; id < params.size(); ++id) {
      if (params.segment(id) != nullptr) weights.load(ctx, id, params.view(id, flat));
    }
    weights.refresh_compute(ctx);
  });
}

}  // namespace

void load_first_weights(const RunModel& described, const Transformer& model, Session& session,
                        const std::function<void(const std::string&)>& note) {
  if (described.weights != nullptr) load_base(described, model, session, note);
  if (!described.adapter_folder.empty()) load_adapters(described, model, session);
}

}  // namespace gradmill
