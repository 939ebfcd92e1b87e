// SPDX-License-Identifier: Apache-2.0
// LoadedRun: a trained model from its run folder, ready to evaluate or generate.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "run/evaluation.h"
#include "run/labelled_inference.h"
#include "run/run_model.h"
#include "run/run_tokenizer.h"
#include "session/session.h"
#include "run/train_state.h"

namespace gradmill {

// What to do if the newest checkpoint of a run folder is damaged: refuse the run, or warn on stderr and use the newest
// intact one.
enum class IfDamaged : uint8_t { refuse, use_older };

// A run folder's best checkpoint, or its newest if no evaluation chose a best; or the checkpoint that `path` names.
Checkpoint open_checkpoint(const std::filesystem::path& path, IfDamaged if_damaged = IfDamaged::refuse);

class LoadedRun {
 public:
  // Opens a run folder (its best checkpoint, or the newest if no evaluation chose a best), a checkpoint, or another
  // program's model: a Hugging Face folder, a .gguf file, or a PEFT folder whose base is where it says. `exact` is for
  // exports: it computes on the CPU, in fp32, with an unquantised base.
  enum class Precision : uint8_t { as_trained, exact };
  explicit LoadedRun(const std::filesystem::path& path, Precision precision = Precision::as_trained,
                     IfDamaged if_damaged = IfDamaged::refuse);
  LoadedRun(const std::filesystem::path& path, IfDamaged if_damaged)
      : LoadedRun(path, Precision::as_trained, if_damaged) {}

  int64_t step() const { return state_.step; }
  // The checkpoint's copy, wherever the tokenizer is that the run was started with.
  const RunTokenizer& tokenizer() const { return tokenizer_; }
  // The token that ends a text, if there is one.
  std::optional<TokenId> end_of_text() const { return gradmill::end_of_text(tokenizer_, config_.data); }
  Session& session() { return *session_; }
  const Task& task() const { return task_; }
  const RunConfig& config() const { return config_; }
  // For two classes, if the run tuned one.
  std::optional<double> threshold() const { return state_.threshold; }

  // For a classifier or regressor: answers for the run's validation data, or for a set with the same columns.
  TaskAnswers answer_validation();
  TaskAnswers answer_set(const LabelledSet& set);

  // For a language model: evaluates the run's validation data. Bytes are counted.
  Evaluation evaluate_validation();
  // Evaluates all of other data: a text by name or path, or, after training on tokens, whatever data.path accepts.
  Evaluation evaluate_text(const std::string& dataset);

  const Transformer& model() const { return *model_; }
  const RunModel& run_model() const { return run_model_; }

 private:
  void open_run(const std::filesystem::path& path, Precision precision, IfDamaged if_damaged);
  void open_model(const std::filesystem::path& path);
  void open_adapters(const std::filesystem::path& path, Precision precision);
  void make_session(Precision precision);
  Evaluation evaluate_batches(const VisitBatches& batches);

  RunConfig config_;
  TrainState state_;
  RunTokenizer tokenizer_;
  Task task_;
  RunModel run_model_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<Session> session_;
};

}  // namespace gradmill
