// SPDX-License-Identifier: Apache-2.0
// A transformer from its specification: the model only wires layers.
#pragma once

#include <span>
#include <functional>
#include <vector>

#include "models/transformer_spec.h"
#include "nn/embedding.h"
#include "nn/lm_head.h"
#include "nn/residual.h"

namespace gradmill {

class Transformer {
 public:
  // With a plan, adapters beside a frozen base. Throws a usage error when the plan names what the model does not have.
  explicit Transformer(TransformerSpec spec, AdapterPlan plan = {});

  const TransformerSpec& spec() const { return spec_; }
  const ParamTable& params() const { return params_; }
  const std::vector<Block>& blocks() const { return blocks_; }

  // Constant tensors the layers read, in persistent memory.
  TensorView make_rope_table(ExecContext& ctx) const;
  // One cache a layer for a sequence of up to `positions` rows, in the saved arena.
  std::vector<KvCache> make_caches(Pass& pass, int64_t positions) const;

  // Forward, loss and backward of one micro-batch: adds to the gradients and to scalars->loss_sum.
  void train(Pass& pass, const TensorView& tokens, const TensorView& targets) const;
  // Forward and loss: adds to scalars->loss_sum.
  void evaluate(Pass& pass, const TensorView& tokens, const TensorView& targets) const;
  // out (end - begin, V): the logits of rows begin .. end. With caches, the rows continue the sequence that these hold
  // (pass.seq: one sequence, its queries the new rows, its keys all rows so far) and join it.
  void logits(Pass& pass, const TensorView& tokens, int64_t begin, int64_t end, const TensorView& out,
              std::span<const KvCache> caches = {}) const;
  // A forward that shows the stream after the embedding, after every block ("layers.3") and after the final norm.
  using Visit = std::function<void(const std::string& where, const TensorView& x)>;
  void visit_activations(Pass& pass, const TensorView& tokens, const Visit& visit) const;

 private:
  struct Activations;
  // The final norm's output; what the backward needs is left in `kept`.
  void forward(Pass& pass, const TensorView& tokens, Activations& kept, const Visit* visit = nullptr) const;
  void backward(Pass& pass, const TensorView& tokens, const Activations& kept, const StreamGrad& grad) const;

  TransformerSpec spec_;
  ParamTable params_;
  Embedding embedding_;
  std::vector<Block> blocks_;
  Norm final_norm_;
  LmHead head_;
};

}  // namespace gradmill
