// SPDX-License-Identifier: Apache-2.0
#include "train/loaded_run.h"

#include <algorithm>

#include "checkpoint/store.h"
#include "config/loader.h"
#include "data/char_vocab.h"
#include "data/corpus.h"
#include "tokenizer/token_bytes.h"
#include "train/labelled_data.h"
#include "train/model_folder.h"
#include "train/packed_validation.h"
#include "train/run_folder.h"
#include "train/run_model.h"
#include "train/run_options.h"

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

// A model that no run of ours made: what its files say, with rows that are not too long for a first try.
RunConfig config_of_model(const std::filesystem::path& path) {
  constexpr int64_t kRows = 2048, kLabelledRows = 512;
  RunConfig config;
  config.model.path = path.string();
  const HfConfig hf = open_model_config(path);
  const bool classifier = hf.spec.head == HeadKind::classifier;
  if (classifier) config.data.task = hf.spec.labels == 1 ? "regress" : "classify";
  config.model.context = std::min(hf.spec.max_positions, classifier ? kLabelledRows : kRows);
  config.training.batch_size = 1;
  return config;
}

RunTask task_of_model(const RunConfig& config) {
  if (!config.data.is_labelled()) return {};
  const HfConfig hf = open_model_config(config.model.path);
  if (hf.spec.labels == 1) return {.kind = RunTask::Kind::numbers};
  return {.kind = RunTask::Kind::classes, .labels = LabelMap(hf.labels)};
}

RunTask task_of(const TrainState& state) {
  if (state.task.empty()) return {};
  return {.kind = state.task == "regress" ? RunTask::Kind::numbers : RunTask::Kind::classes,
          .labels = LabelMap(state.labels)};
}

}  // namespace

Checkpoint open_checkpoint(const std::filesystem::path& path) {
  const ResumePoint point = resume_point(path);
  const CheckpointStore store(point.run_folder);
  if (point.step) return store.open(*point.step);
  std::optional<Checkpoint> newest = store.newest();
  if (!newest)
    throw data_error(fmt::format("'{}' has no checkpoint that can be read", path.string()), "train the run again");
  const int64_t best = state_from_json(newest->state_json()).best_step;
  const std::vector<int64_t> steps = store.steps();
  const bool has_best = best > 0 && std::find(steps.begin(), steps.end(), best) != steps.end();
  return has_best && best != newest->step() ? store.open(best) : std::move(*newest);
}

LoadedRun::LoadedRun(const std::filesystem::path& path, Precision precision) {
  if (is_model_path(path)) {
    open_model(path);
  } else {
    open_run(path, precision);
  }
}

void LoadedRun::make_session() {
  model_ = std::make_unique<Transformer>(described_.spec, described_.plan);
  SessionOptions options = session_options(config_);
  if (!task_.is_language()) set_inference_sizes(options, config_.model.context);
  session_ = std::make_unique<Session>(*model_, options);
  load_first_weights(described_, *model_, *session_, [](const std::string&) {});
}

void LoadedRun::open_model(const std::filesystem::path& path) {
  config_ = config_of_model(path);
  tokenizer_ = open_run_tokenizer(path.string());
  task_ = task_of_model(config_);
  described_ = open_run_model(config_, task_, tokenizer_.tokenizer->vocab_size());
  make_session();
}

void LoadedRun::open_run(const std::filesystem::path& path, Precision precision) {
  config_ = read_config(path);
  if (precision == Precision::exact) {
    config_.model.load_in = "bf16";
    config_.machine.device = "cpu";
    config_.machine.dtype = "fp32";
  }
  const Checkpoint checkpoint = open_checkpoint(path);
  state_ = state_from_json(checkpoint.state_json());
  tokenizer_ = read_tokenizer(checkpoint, state_, config_);
  task_ = task_of(state_);
  described_ = open_saved_model(config_, task_, tokenizer_.tokenizer->vocab_size(), checkpoint);
  check_same_base(state_, described_);
  make_session();
  load_session(checkpoint, *model_, described_, *session_, progress_of(state_));
  // Averages, where a run keeps them, are what it is judged by.
  if (session_->has_average()) session_->exchange_average();
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
  result.bytes = bytes;
  return result;
}

Evaluation LoadedRun::evaluate_validation() {
  const std::unique_ptr<RunData> data = load_run_data(config_, {.tokenizer = &tokenizer_});
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
  const int64_t eval_seqs = session_options(config_).eval_seqs;
  if (tokenizer_.is_chars()) {
    const std::vector<TokenId> tokens =
        CharVocab::from_text(tokenizer_.characters).encode(load_corpus({.dataset = dataset}).text);
    return evaluate_batches([&](const RunData::UseBatch& use) {
      for (const MicroBatch& batch : eval_batches(tokens, eval_seqs, config_.model.context, 0)) use(batch);
    });
  }
  const TokenSource source(config_, tokenizer_);
  PackedValidation data(source.shards(dataset, {}).shards, pack_options(config_), eval_seqs);
  return evaluate_batches([&](const RunData::UseBatch& use) { data.visit(0, use); });
}

}  // namespace gradmill
