// SPDX-License-Identifier: Apache-2.0
// LoadedRun: a trained model from its run folder, ready to evaluate or generate.
#pragma once

#include <filesystem>
#include <string>

#include "train/run_data.h"
#include "train/session.h"
#include "train/train_state.h"

namespace gradmill {

class LoadedRun {
 public:
  // A run folder (its best checkpoint, or the newest where no evaluation chose one) or one checkpoint.
  explicit LoadedRun(const std::filesystem::path& path);

  int64_t step() const { return state_.step; }
  const CharVocab& vocab() const { return vocab_; }
  Session& session() { return *session_; }

  struct Evaluation {
    double loss = 0;
    int64_t tokens = 0;
  };
  // On the text the run was trained on.
  Evaluation evaluate_validation();
  // On all of another text, by name or path.
  Evaluation evaluate_text(const std::string& dataset);

 private:
  Evaluation evaluate(std::span<const int32_t> tokens);

  RunConfig config_;
  TrainState state_;
  CharVocab vocab_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<Session> session_;
};

}  // namespace gradmill
