// SPDX-License-Identifier: Apache-2.0
// A model and session built from a golden file, for comparison with results of PyTorch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "model_files/hf_names.h"
#include "session/session.h"

namespace gradmill::test {

class GoldenModel {
 public:
  // `prefix` is the prefix of the parameters' names in the file ("", "init.").
  GoldenModel(const std::string& name, const std::string& prefix, SessionOptions options);

  const SafeTensors& file() const { return file_; }
  const Transformer& model() const { return *model_; }
  Session& session() { return *session_; }
  double number(const std::string& key) const;
  // A stored parameter or gradient, in our layout.
  std::vector<float> stored(const std::string& prefix, ParamId id) const;

 private:
  SafeTensors file_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<Session> session_;
  const Family& family_;
};

// Makes a micro-batch with the session's capacity from sequences of equal length.
MicroBatch batch_of(const TensorView& tokens, const TensorView& targets, int64_t seqs, int64_t length, int64_t context);

}  // namespace gradmill::test
