// SPDX-License-Identifier: Apache-2.0
#include "run/run_model.h"

#include <algorithm>

#include "adapters/peft_folder.h"
#include "core/error.h"
#include "model_files/gguf/gguf_model.h"
#include "model_files/load_weights.h"
#include "model_files/model_folder.h"
#include "nn/dora.h"
#include "run/model_folder.h"
#include "run/run_adapters.h"
#include "run/run_options.h"

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

}  // namespace

void load_first_weights(const RunModel& described, const Transformer& model, Session& session,
                        const std::function<void(const std::string&)>& note) {
  if (described.weights != nullptr) load_base(described, model, session, note);
  if (!described.adapter_folder.empty()) load_adapters(described, model, session);
}

}  // namespace gradmill
