// SPDX-License-Identifier: Apache-2.0
// A transformer from its specification. TransformerSpec says everything that differs between model families; the
// model only wires layers.
#pragma once

#include <span>
#include <functional>
#include <vector>

#include "nn/embedding.h"
#include "nn/lm_head.h"
#include "nn/residual.h"

namespace gradmill {

enum class PositionScheme : uint8_t { learned, rope };

struct TransformerSpec {
  int64_t vocab = 0, layers = 0, width = 0, heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: width / heads
  int64_t mlp_width = 0;
  int64_t max_positions = 0;  // context length
  PositionScheme positions = PositionScheme::rope;
  float rope_theta = 10000;
  NormKind norm = NormKind::rms;
  float norm_eps = 1e-6f;
  bool norm_bias = true;  // LayerNorm's; RMSNorm has none
  bool qk_norm = false;
  Activation activation = Activation::swiglu;
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool causal = true;
  int64_t window = 0;    // keys a query sees, itself included; 0: all
  bool tied = true;      // the head uses the token table
  bool dropout = false;  // its probability is a StepScalar
  float embedding_scale = 1;
  float init_std = 0.02f;
  int64_t loss_chunk_rows = 0;

  // Throws a usage error for sizes that cannot work; fills in the zeros above.
  void complete();
};

// Learned positions, LayerNorm, GELU; biases everywhere or nowhere.
TransformerSpec gpt2_spec(int64_t vocab, int64_t layers, int64_t heads, int64_t width, int64_t context,
                          bool bias = true);
// RoPE, RMSNorm, SwiGLU, QK-norm, grouped queries.
TransformerSpec qwen3_spec(int64_t vocab, int64_t layers, int64_t heads, int64_t kv_heads, int64_t width,
                           int64_t mlp_width, int64_t context);

class Transformer {
 public:
  explicit Transformer(TransformerSpec spec);

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
