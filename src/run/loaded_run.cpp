// SPDX-License-Identifier: Apache-2.0
#include "run/loaded_run.h"

#include <algorithm>
#include <cstdio>

#include "adapters/peft_folder.h"
#include "checkpoint/store.h"
#include "config/loader.h"
#include "data/characters/char_vocab.h"
#include "data/characters/corpus.h"
#include "tokenizer/token_bytes.h"
#include "run/first_weights.h"
#include "run/labelled_data.h"
#include "run/load_run_data.h"
#include "run/masked_data.h"
#include "run/model_folder.h"
#include "run/packed_validation.h"
#include "run/run_folder.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

RunConfig read_config(const std::filesystem::path& path) {
  ConfigRequest request;
  request.files = {resume_point(path).run_folder / kConfigFile};
  return load_config(request).config;
}

RunTokenizer read_tokenizer(const Checkpoint& checkpoint, const TrainState& state, const RunConfig& config) {
  if (!state.vocabulary.empty()) return char_run_tokenizer(state.vocabulary);
  return open_run_tokenizer(config.data.tokenizer == "byte" ? "byte" : checkpoint.folder().string());
}

// The config for another program's model: what its files say, with rows of moderate length.
RunConfig config_of_model(const std::filesystem::path& path) {
  constexpr int64_t kRows = 2048, kLabelledRows = 512;
  RunConfig config;
  config.model.path = path.string();
  const HfConfig hf = open_model_config(path);
  const bool classifier = hf.spec.head == HeadKind::classifier;
  if (classifier) config.data.task = name_of(hf.spec.labels == 1 ? TaskKind::regress : TaskKind::classify);
  if (hf.spec.head == HeadKind::masked_lm) config.data.task = name_of(TaskKind::mask);
  config.model.context = std::min(hf.spec.max_positions, classifier ? kLabelledRows : kRows);
  config.training.batch_size = 1;
  return config;
}

Task task_of_model(const RunConfig& config) {
  if (!is_labelled(config.data.kind())) return task_without_data(config);
  return task_of_labels(open_model_config(config.model.path).labels);
}

// For exports: no value is rounded.
void make_exact(RunConfig& config) {
  config.model.load_in = "bf16";
  config.machine.device = "cpu";
  config.machine.dtype = "fp32";
}

// The base that adapters name: a path as given, or relative to the adapters' folder.
std::filesystem::path base_of(const std::filesystem::path& folder, const AdapterConfig& adapter) {
  std::error_code ignored;
  for (const std::filesystem::path& path : {std::filesystem::path(adapter.base_model), folder / adapter.base_model}) {
    if (!adapter.base_model.empty() && is_model_path(path)) return path;
  }
  throw data_error(
      fmt::format("the adapters in '{}' belong to '{}', which is not a model folder on this machine", folder.string(),
                  adapter.base_model),
      fmt::format("set base_model_name_or_path in {} to the base's folder", (folder / kAdapterConfigFile).string()));
}

// Adapters are stored with the head they were trained with. Its rows are the labels; only the base may know their
// names.
std::vector<std::string> labels_of_adapters(const std::filesystem::path& folder, const HfConfig& base) {
  const SafeTensors file(folder / kAdapterFile);
  const std::string head = "." + hf_head_tensor(*base.family, "classifier.weight");
  for (const std::string& name : file.names()) {
    if (!name.ends_with(head)) continue;
    const int64_t rows = file.at(name).rows();
    if (std::ssize(base.labels) == rows) return base.labels;
    std::vector<std::string> labels;
    for (int64_t i = 0; i < rows; ++i) labels.push_back(fmt::format("LABEL_{}", i));
    return labels;
  }
  throw data_error(fmt::format("{} has no classifier head", (folder / kAdapterFile).string()),
                   "train the adapters with modules_to_save naming the classifier");
}

bool has_tokenizer(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spm.model", "spiece.model", "vocab.txt"}) {
    if (std::filesystem::exists(folder / name, ignored)) return true;
  }
  return false;
}

}  // namespace

Checkpoint open_checkpoint(const std::filesystem::path& path, IfDamaged if_damaged) {
  const ResumePoint point = resume_point(path);
  const CheckpointStore store(point.run_folder);
  if (point.step) return store.open(*point.step);
  std::vector<std::string> damaged;
  std::optional<Checkpoint> newest = store.newest(&damaged);
  if (!newest) throw data_error(fmt::format("'{}' has no readable checkpoint", path.string()), "train the run again");
  if (!damaged.empty() && if_damaged == IfDamaged::refuse) {
    throw data_error(damaged.front(),
                     fmt::format("--allow-older uses {}, the newest intact one", newest->folder().string()));
  }
  for (const std::string& reason : damaged) std::fprintf(stderr, "gradmill: %s\n", reason.c_str());
  if (!damaged.empty()) std::fprintf(stderr, "gradmill: using step %lld\n", static_cast<long long>(newest->step()));
  const int64_t best = state_from_json(newest->state_json()).best_step;
  const std::vector<int64_t> steps = store.steps();
  const bool has_best = best > 0 && std::find(steps.begin(), steps.end(), best) != steps.end();
  return has_best && best != newest->step() ? store.open(best) : std::move(*newest);
}

LoadedRun::LoadedRun(const std::filesystem::path& path, Precision precision, IfDamaged if_damaged) {
  if (is_peft_path(path)) {
    open_adapters(path, precision);
  } else if (is_model_path(path)) {
    open_model(path);
  } else {
    open_run(path, precision, if_damaged);
  }
}

// Nothing is trained here, so there is no dropout, and weights of any compute type need no masters.
void LoadedRun::make_session(Precision precision) {
  AdapterPlan plan = run_model_.network->params().plan();
  if (!run_model_.adapters && precision == Precision::as_trained) plan.freezes_base = true;
  model_ = std::make_unique<Transformer>(run_model_.spec(), plan);
  const bool labelled = !task_.predicts_tokens();
  SessionOptions options =
      session_options(config_, labelled ? inference_shape(config_.model.context) : batch_shape(config_));
  options.inference = true;
  session_ = std::make_unique<Session>(*model_, options);
  load_first_weights(run_model_, *model_, *session_, [](const std::string&) {});
}

void LoadedRun::open_model(const std::filesystem::path& path) {
  config_ = config_of_model(path);
  tokenizer_ = open_run_tokenizer(path.string());
  task_ = task_of_model(config_);
  run_model_ = open_run_model(config_, task_, tokenizer_.tokenizer->vocab_size(), ModelUse::inference);
  make_session(Precision::as_trained);
}

void LoadedRun::open_adapters(const std::filesystem::path& path, Precision precision) {
  constexpr int64_t kLabelledRows = 512;
  const AdapterConfig adapter = read_adapter_config(path);
  const std::filesystem::path base = base_of(path, adapter);
  config_ = config_of_model(base);
  config_.adapter.path = path.string();
  if (precision == Precision::exact) make_exact(config_);
  tokenizer_ = open_run_tokenizer((has_tokenizer(path) ? path : base).string());
  if (adapter.task_type == "SEQ_CLS") {
    task_ = task_of_labels(labels_of_adapters(path, open_model_config(base)));
    config_.data.task = task_.name();
    config_.model.context = std::min(config_.model.context, kLabelledRows);
  }
  run_model_ = open_run_model(config_, task_, tokenizer_.tokenizer->vocab_size(), ModelUse::inference);
  make_session(precision);
}

void LoadedRun::open_run(const std::filesystem::path& path, Precision precision, IfDamaged if_damaged) {
  config_ = read_config(path);
  if (precision == Precision::exact) make_exact(config_);
  const Checkpoint checkpoint = open_checkpoint(path, if_damaged);
  state_ = state_from_json(checkpoint.state_json());
  tokenizer_ = read_tokenizer(checkpoint, state_, config_);
  task_ = task_by_name(state_.task, state_.labels);
  run_model_ = open_saved_model(config_, task_, tokenizer_.tokenizer->vocab_size(), checkpoint);
  check_same_base(state_, run_model_);
  make_session(precision);
  load_inference(checkpoint, *model_, run_model_, *session_);
}

Evaluation LoadedRun::evaluate_batches(const VisitBatches& batches) {
  TokenBytes token_bytes(*tokenizer_.tokenizer);
  int64_t bytes = 0;
  Evaluation result = evaluate(*session_, [&](const RunData::UseBatch& use) {
    batches([&](const MicroBatch& batch) {
      for (const int32_t target : batch.targets) bytes += token_bytes.of(target);
      return use(batch);
    });
  });
  result.bytes = task_.predicts_hidden_tokens() ? 0 : bytes;  // the hidden tokens are only a part of the text
  return result;
}

Evaluation LoadedRun::evaluate_validation() {
  const std::unique_ptr<const RunData> data = load_run_data(config_, {.tokenizer = &tokenizer_});
  return evaluate_batches([&](const RunData::UseBatch& use) { data->visit_validation(0, use); });
}

TaskAnswers LoadedRun::answer_validation() {
  LabelledData data(config_, {.tokenizer = &tokenizer_, .labels = &task_.labels});
  return answer_examples(*session_, task_, data.validation_set(), data.validation_examples());
}

TaskAnswers LoadedRun::answer_set(const LabelledSet& set) {
  const EncodedSet encoded = encode_set(set, tokenizer_, config_);
  return answer_examples(*session_, task_, encoded, all_examples(encoded));
}

Evaluation LoadedRun::evaluate_text(const std::string& dataset) {
  const int64_t eval_seqs = batch_shape(config_).eval_seqs;
  if (tokenizer_.is_chars()) {
    const std::vector<TokenId> tokens =
        CharVocab::from_text(tokenizer_.characters).encode(load_corpus({.dataset = dataset}).text);
    return evaluate_batches([&](const RunData::UseBatch& use) {
      for (const MicroBatch& batch : eval_batches(tokens, eval_seqs, config_.model.context, 0)) use(batch);
    });
  }
  const TokenSource source(config_, tokenizer_);
  PackedValidation data(source.shards(dataset, {}).shards, pack_options(config_), eval_seqs);
  if (!task_.predicts_hidden_tokens())
    return evaluate_batches([&](const RunData::UseBatch& use) { data.visit(0, use); });
  const MaskRule rule = mask_rule(config_, tokenizer_);
  return evaluate_batches([&](const RunData::UseBatch& use) { data.visit(0, hiding_tokens(rule, use)); });
}

}  // namespace gradmill
