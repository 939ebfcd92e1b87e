// SPDX-License-Identifier: Apache-2.0
// A transformer from its specification: the model only wires layers.
#pragma once

#include <span>
#include <functional>
#include <vector>

#include "models/model_inputs.h"
#include "models/transformer_spec.h"
#include "nn/classifier.h"
#include "nn/embedding.h"
#include "nn/lm_head.h"
#include "nn/relative_positions.h"
#include "nn/residual.h"

namespace gradmill {

class Transformer {
 public:
  // With a plan, adapters beside a frozen base. Throws a usage error when the plan names what the model does not have.
  explicit Transformer(TransformerSpec spec, AdapterPlan plan = {});

  const TransformerSpec& spec() const { return spec_; }
  const ParamTable& params() const { return params_; }
  const std::vector<Block>& blocks() const { return blocks_; }

  // Constant tensors the layers read, in persistent memory, for sequences of up to `positions` rows.
  PositionTables make_position_tables(ExecContext& ctx, int64_t positions) const;
  // One cache a layer for a sequence of up to `positions` rows, in the saved arena.
  std::vector<KvCache> make_caches(Pass& pass, int64_t positions) const;

  // Forward, loss and backward of one micro-batch: adds to the gradients and to scalars->loss_sum.
  // Targets of language models: (N) int32, kIgnoredTarget where there is none. Of classifiers: (max_seqs) int32 class
  // ids, kIgnoredTarget where there is none, or with one label (max_seqs) fp32 values, whose loss is the squared error.
  void train(Pass& pass, const ModelInputs& inputs, const Targets& targets) const;
  // Forward and loss: adds to scalars->loss_sum.
  void evaluate(Pass& pass, const ModelInputs& inputs, const Targets& targets) const;
  // out (max_seqs, labels) fp32: a classifier's logits; what stands in rows of empty sequences means nothing.
  void class_logits(Pass& pass, const ModelInputs& inputs, const TensorView& out) const;
  // out (N, C) fp32: the hidden states that a head would read.
  void hidden(Pass& pass, const ModelInputs& inputs, const TensorView& out) const;
  // out (end - begin, V): the logits of rows begin .. end. With caches, the rows continue the sequence that these hold
  // (pass.seq: one sequence, its queries the new rows, its keys all rows so far) and join it.
  void logits(Pass& pass, const ModelInputs& inputs, int64_t begin, int64_t end, const TensorView& out,
              std::span<const KvCache> caches = {}) const;
  // A forward that shows the stream after the embedding, after every block ("layers.3") and after the final norm.
  using Visit = std::function<void(const std::string& where, const TensorView& x)>;
  void visit_activations(Pass& pass, const ModelInputs& inputs, const Visit& visit) const;

 private:
  struct Activations;
  bool is_language_model() const { return spec_.head == HeadKind::causal_lm || spec_.head == HeadKind::masked_lm; }
  // `kept` gets what heads read and what the backward needs.
  void forward(Pass& pass, const ModelInputs& inputs, Activations& kept, const Visit* visit = nullptr) const;
  void backward(Pass& pass, const ModelInputs& inputs, const Activations& kept, StreamGrad& grad) const;

  SavePolicy policy_of(const Pass& pass) const;
  size_t blocks_after(size_t layer) const { return blocks_.size() - 1 - layer; }
  void loss(Pass& pass, const Activations& kept, const Targets& targets, const TensorView& dx) const;

  TransformerSpec spec_;
  ParamTable params_;
  Embedding embedding_;
  RelativePositions relative_;
  std::vector<Block> blocks_;
  size_t lowest_trained_block_ = 0;  // the backward ends here: no parameter below it is trained
  Norm final_norm_;
  LmHead head_;
  Classifier classifier_;
};

}  // namespace gradmill
