// SPDX-License-Identifier: Apache-2.0
// N rows, C width, V vocabulary, L layers.
#include "models/transformer.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "models/position_tables.h"
#include "ops/convert.h"

namespace gradmill {
namespace {

bool is_local(const TransformerSpec& spec, int64_t layer) {
  return !spec.local_layers.empty() && spec.local_layers[static_cast<size_t>(layer)];
}

AttentionMask mask_of(const TransformerSpec& spec, int64_t layer) {
  const bool windowed = spec.window > 0 && (spec.local_layers.empty() || is_local(spec, layer));
  if (spec.causal) return {.left = windowed ? spec.window - 1 : -1, .right = 0};
  const int64_t reach = windowed ? spec.window / 2 : -1;
  return {.left = reach, .right = reach};
}

Norm::Options norm_options(const TransformerSpec& spec) {
  return {.kind = spec.norm, .eps = spec.norm_eps, .offset = spec.norm_offset, .bias = spec.norm_bias};
}

// GPT-2's rule: what writes to the residual stream starts smaller the more layers there are.
float out_init_std(const TransformerSpec& spec) {
  return spec.init_std / std::sqrt(2.0f * static_cast<float>(spec.layers));
}

SelfAttention::Options attention_options(const TransformerSpec& spec, int64_t layer, uint32_t site) {
  return {.name = fmt::format("layers.{}.attention", layer),
          .width = spec.width,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .qkv_bias = spec.qkv_bias,
          .out_bias = spec.out_bias,
          .rope = spec.positions == PositionScheme::rope,
          .qk_norm = spec.qk_norm,
          .qk_norm_all_heads = spec.qk_norm_all_heads,
          .norm_eps = spec.norm_eps,
          .norm_offset = spec.norm_offset,
          .local = is_local(spec, layer),
          .scale = spec.attention_scale,
          .mask = mask_of(spec, layer),
          .relative = {.on = spec.disentangled.on(),
                       .content_to_position = spec.disentangled.content_to_position,
                       .position_to_content = spec.disentangled.position_to_content,
                       .shares_keys = spec.disentangled.share_keys},
          .dropout = spec.dropout,
          .dropout_site = site,
          .init_std = spec.init_std,
          .out_init_std = out_init_std(spec)};
}

Block::Options block_options(const TransformerSpec& spec, int64_t layer) {
  const std::string name = fmt::format("layers.{}", layer);
  const auto site = RngSite::kLayerSites + static_cast<uint32_t>(layer) * RngSite::kSitesPerLayer;
  return {.placement = spec.norm_placement,
          .has_norm1 = spec.first_norm || layer > 0,
          .norm = norm_options(spec),
          .attention = attention_options(spec, layer, site),
          .mlp = {.name = name + ".mlp",
                  .width = spec.width,
                  .hidden = spec.mlp_width,
                  .activation = spec.activation,
                  .bias = spec.mlp_bias,
                  .init_std = spec.init_std,
                  .out_init_std = out_init_std(spec)},
          .name = name,
          .dropout = spec.dropout,
          .dropout_site = site + 1};
}

Embedding::Options embedding_options(const TransformerSpec& spec) {
  return {.name = "embedding",
          .vocab = spec.vocab,
          .width = spec.width,
          .positions = spec.positions == PositionScheme::learned ? spec.max_positions : 0,
          .position_offset = spec.position_offset,
          .token_types = spec.token_types,
          .scale = spec.embedding_scale,
          .init_std = spec.init_std,
          .dropout = spec.dropout,
          .normed = spec.embedding_norm,
          .norm = norm_options(spec)};
}

LmHead::Options lm_head_options(const TransformerSpec& spec, ParamId token_table) {
  const bool masked = spec.head == HeadKind::masked_lm;
  const Activation activation = spec.activation == Activation::geglu_erf    ? Activation::gelu_erf
                                : spec.activation == Activation::geglu_tanh ? Activation::gelu_tanh
                                                                            : spec.activation;
  return {.name = "head",
          .width = spec.width,
          .vocab = spec.vocab,
          .tied_weight = spec.tied ? token_table : kNoParam,
          .bias = masked && spec.mlm_bias,
          .softcap = spec.logit_softcap,
          .transform = masked,
          .transform_options = {.bias = spec.mlm_transform_bias, .activation = activation, .norm = norm_options(spec)},
          .init_std = spec.init_std,
          .chunk_rows = spec.loss_chunk_rows};
}

Classifier::Options classifier_options(const TransformerSpec& spec) {
  return {.width = spec.width,
          .labels = spec.labels,
          .pooling = spec.pooling,
          .pooler = spec.pooler,
          .pooler_bias = spec.pooler != PoolerKind::gelu_norm || spec.mlm_transform_bias,
          .bias = spec.classifier_bias,
          .norm = norm_options(spec),
          .dropout = spec.dropout && spec.pooler != PoolerKind::none,
          .init_std = spec.init_std};
}

}  // namespace

struct Transformer::Activations {
  explicit Activations(size_t layers) : blocks(layers) {}

  EmbeddingSaved embedding;
  NormStats relative;  // of the table of relative positions
  std::vector<BlockSaved> blocks;
  SharedBuffers buffers;  // where backwards write activations again
  TensorView x;           // (N, C) the stream after the last block
  Drop drop;              // of its last part
  NormStats stats;
  TensorView output;  // (N, C) what heads read
};

Transformer::Transformer(TransformerSpec spec, AdapterPlan plan) : spec_(std::move(spec)), params_(std::move(plan)) {
  spec_.complete();
  embedding_ = Embedding(params_, embedding_options(spec_));
  if (spec_.disentangled.on()) {
    relative_ = RelativePositions(params_, {.rows = 2 * spec_.disentangled.buckets,
                                            .width = spec_.width,
                                            .normed = spec_.disentangled.norm_table,
                                            .norm = norm_options(spec_),
                                            .init_std = spec_.init_std});
  }
  for (int64_t layer = 0; layer < spec_.layers; ++layer) {
    blocks_.emplace_back(params_, block_options(spec_, layer));
    // The flat space is empty as long as nothing was added that is trained.
    if (params_.flat_size() == 0) lowest_trained_block_ = blocks_.size();
  }
  if (spec_.final_norm) {
    Norm::Options norm = norm_options(spec_);
    norm.name = "norm";
    norm.width = spec_.width;
    final_norm_ = Norm(params_, norm);
  }
  if (is_language_model()) {
    head_ = LmHead(params_, lm_head_options(spec_, embedding_.table()));
  } else if (spec_.head == HeadKind::classifier) {
    classifier_ = Classifier(params_, classifier_options(spec_));
  }
  params_.check_plan();
}

PositionTables Transformer::make_position_tables(ExecContext& ctx, int64_t positions) const {
  return gradmill::make_position_tables(ctx, spec_, std::min(positions, spec_.max_positions));
}

std::vector<KvCache> Transformer::make_caches(Pass& pass, int64_t positions) const {
  std::vector<KvCache> caches;
  for (const Block& block : blocks_) {
    const NameScope scope(pass.ctx, "layers", static_cast<int>(caches.size()));
    caches.push_back(block.attention().make_cache(pass, positions));
  }
  return caches;
}

void Transformer::forward(Pass& pass, const ModelInputs& inputs, Activations& kept, const Visit* visit) const {
  const Shape shape{inputs.tokens.numel(), spec_.width};
  const DType dtype = pass.weights.dtype();
  const auto show = [&](const std::string& where, const TensorView& x) {
    if (visit && x.defined()) (*visit)(where, x);
  };
  const StreamBuffers buffers{pass.scratch(shape, "stream x"), pass.scratch(shape, "stream delta")};
  const SharedBuffers shared =
      blocks_.empty() ? SharedBuffers{} : blocks_.back().make_buffers(pass, shape[0], blocks_.size());
  if (pass.policy.writes_again()) kept.buffers = shared;
  Stream stream{pass.slot(Slot::x, shape, dtype, "embedded"), {}, {}, {}};
  embedding_.forward(pass, inputs.tokens, inputs.token_types, kept.embedding, stream.x.plain);
  show("embedding", stream.x.plain);
  if (relative_.defined()) relative_.forward(pass, kept.relative);
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    const NameScope scope(pass.ctx, "layers", static_cast<int>(layer));
    blocks_[layer].forward(pass, stream, buffers, shared.of(blocks_after(layer)), kept.blocks[layer]);
    if (visit) finish_product(pass.ctx, stream.product);
    show(fmt::format("layers.{}", layer), stream.x.plain);
    show(fmt::format("layers.{}", layer), stream.delta);
  }
  kept.x = kept.output = stream.x.plain;
  if (!spec_.final_norm) return;
  const NameScope scope(pass.ctx, "final");
  if (stream.delta.defined()) kept.x = pass.slot(Slot::x, shape, dtype, "x");
  kept.stats = final_norm_.alloc_stats(pass, Slot::x, shape[0]);
  kept.output = pass.slot(Slot::x, shape, dtype, "norm");
  kept.drop = stream.drop;
  final_norm_.forward(pass, stream.x.plain, stream.delta, stream.drop, stream.delta.defined() ? kept.x : TensorView{},
                      kept.stats, kept.output, stream.product);
  show("norm", kept.output);
}

void Transformer::backward(Pass& pass, const ModelInputs& inputs, const Activations& kept, StreamGrad& grad) const {
  if (lowest_trained_block_ == blocks_.size() && !final_norm_.wants(*pass.grads)) return;
  if (spec_.final_norm) {
    grad.pass_norm(
        pass, final_norm_,
        {.sum = kept.x, .stats = kept.stats, .dy = grad.dx, .drop = kept.drop, .branch = blocks_.back().last_layer()});
  }
  const ArenaScope scratch(pass.ctx.scratch);
  if (relative_.defined()) relative_.begin_backward(pass);
  // The norm that writes the stream's gradient at its start takes it through the embedding's dropout, too.
  const bool drops_at_start = !blocks_.empty() && blocks_[0].begins_with_norm() && embedding_.wants(*pass.grads);
  for (size_t layer = blocks_.size(); layer-- > lowest_trained_block_;) {
    const NameScope scope(pass.ctx, "layers", static_cast<int>(layer));
    BlockSaved block = kept.blocks[layer];
    if (layer == 0 && drops_at_start) block.drop = embedding_.drop(pass);
    blocks_[layer].backward(pass, block, kept.buffers.of(blocks_after(layer)), grad,
                            layer > 0 ? blocks_[layer - 1].last_layer() : nullptr);
  }
  pass.deferred.run(pass.ctx);
  if (relative_.defined()) relative_.end_backward(pass, kept.relative);
  embedding_.backward(pass, inputs.tokens, inputs.token_types, kept.embedding,
                      drops_at_start ? grad.branch.plain : grad.dx, drops_at_start);
}

void Transformer::loss(Pass& pass, const Activations& kept, const Targets& targets, const TensorView& dx) const {
  if (is_language_model()) return head_.loss(pass, kept.output, targets, dx);
  assert(!targets.weights.defined() && !targets.sequence_losses.defined());
  if (spec_.head == HeadKind::classifier) return classifier_.loss(pass, kept.output, targets.values, dx);
  throw usage_error("a model without a head has no loss", "give it a language-model head or a classifier");
}

// In a small model, writing norms' outputs again takes twice as much time for a byte as writing the activation's output
// again. Half of them (the first norms') are kept where that allows to defer the gradients of a weight.
SavePolicy Transformer::policy_of(const Pass& pass) const {
  const bool keeps =
      !blocks_.empty() && blocks_.back().begins_with_norm() && blocks_.back().attention().keeps_input_to_defer(pass);
  return keeps && pass.policy.writes_again() ? pass.policy.keeping(Slot::norm1) : pass.policy;
}

void Transformer::train(Pass& pass, const ModelInputs& inputs, const Targets& targets) const {
  pass.policy = policy_of(pass);
  const ArenaScope saved(pass.ctx.saved), scratch(pass.ctx.scratch);
  Activations kept(blocks_.size());
  {
    const ArenaScope forward_scratch(pass.ctx.scratch);
    forward(pass, inputs, kept);
  }
  const Shape shape{inputs.tokens.numel(), spec_.width};
  StreamGrad grad;
  grad.branch = grad.dx = pass.scratch(shape, "d stream");
  if (params_.max_rank() > 0) pass.adapters.buffer = pass.scratch({shape[0], params_.max_rank()}, "low-rank gradient");
  loss(pass, kept, targets, grad.dx);
  backward(pass, inputs, kept, grad);
}

void Transformer::evaluate(Pass& pass, const ModelInputs& inputs, const Targets& targets) const {
  const ArenaScope saved(pass.ctx.saved), scratch(pass.ctx.scratch);
  Activations kept(blocks_.size());
  forward(pass, inputs, kept);
  loss(pass, kept, targets, {});
}

void Transformer::class_logits(Pass& pass, const ModelInputs& inputs, const TensorView& out) const {
  if (spec_.head != HeadKind::classifier) throw usage_error("the model is not a classifier", "give it labels");
  const ArenaScope saved(pass.ctx.saved), scratch(pass.ctx.scratch);
  Activations kept(blocks_.size());
  forward(pass, inputs, kept);
  classifier_.logits(pass, kept.output, out);
}

void Transformer::hidden(Pass& pass, const ModelInputs& inputs, const TensorView& out) const {
  const ArenaScope saved(pass.ctx.saved), scratch(pass.ctx.scratch);
  Activations kept(blocks_.size());
  forward(pass, inputs, kept);
  convert(pass.ctx, {.from = kept.output, .to = out});
}

void Transformer::visit_activations(Pass& pass, const ModelInputs& inputs, const Visit& visit) const {
  const ArenaScope saved(pass.ctx.saved), scratch(pass.ctx.scratch);
  Activations kept(blocks_.size());
  forward(pass, inputs, kept, &visit);
}

void Transformer::logits(Pass& pass, const ModelInputs& inputs, int64_t begin, int64_t end, const TensorView& out,
                         std::span<const KvCache> caches) const {
  if (!is_language_model()) throw usage_error("the model has no language-model head", "use one that predicts tokens");
  const ArenaScope saved(pass.ctx.saved), scratch(pass.ctx.scratch);
  Activations kept(blocks_.size());
  for (size_t layer = 0; layer < caches.size(); ++layer) kept.blocks[layer].attention.cache = caches[layer];
  forward(pass, inputs, kept);
  head_.logits(pass, kept.output.slice_rows(begin, end), out);
}

}  // namespace gradmill
