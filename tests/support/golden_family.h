// SPDX-License-Identifier: Apache-2.0
// A tiny model of one family and its batch, from a golden file that tools/make_family_goldens.py wrote.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "cpu/thread_pool.h"
#include "model_files/hf_names.h"
#include "support/test_device.h"

namespace gradmill::test {

// Names of all golden files of families, without "family_".
std::vector<std::string> family_goldens();
// The fields in the file's metadata.
TransformerSpec family_spec(const SafeTensors& file);
const Family& family_of(const SafeTensors& file);

class GoldenFamily {
 public:
  // With a dropout probability, training uses dropout; the file has no expected results for that case.
  GoldenFamily(const std::string& name, Device device, float dropout = 0);

  const SafeTensors& file() const { return file_; }
  const Transformer& model() const { return *model_; }
  const Gradients& gradients() const { return *grads_; }
  KernelOptions& kernels() { return ctx_.kernels; }
  int64_t num_rows() const { return num_rows_; }
  int64_t num_seqs() const { return num_seqs_; }

  // Trains on the whole batch and returns the mean loss.
  double train(SavePolicy policy);
  double evaluate();
  // Moves the weights by `step` along `direction`, which is flat like the gradients.
  void move_weights(const std::vector<float>& direction, double step);
  // (rows or sequences, V or labels), with the values from the file.
  std::vector<float> logits();
  // The logits of the last row of the first sequence, computed with a prompt of `prompt` rows and then one row at a
  // time.
  std::vector<float> cached_logits(int64_t prompt);
  std::vector<float> hidden();
  // A stored parameter or gradient, in our layout.
  std::vector<float> stored(const std::string& prefix, ParamId id) const;

 private:
  Pass pass(bool training, SavePolicy policy);
  TensorView upload(const std::vector<int32_t>& values);
  void upload_batch();
  double mean_loss() const { return ctx_.scalars->loss_sum * double(ctx_.scalars->inv_targets); }

  SafeTensors file_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<TestDevice> device_;
  cpu::ThreadPool pool_{2};
  ExecContext ctx_;
  std::optional<Weights> weights_;
  std::optional<Gradients> grads_;
  PositionTables tables_;
  int64_t num_rows_ = 0, num_seqs_ = 0;
  SeqLayout seq_;
  ModelInputs inputs_;
  TensorView targets_, class_weights_;
};

}  // namespace gradmill::test
