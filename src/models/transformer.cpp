// SPDX-License-Identifier: Apache-2.0
// N rows, C width, V vocabulary, L layers.
#include "models/transformer.h"

#include <cmath>

#include "core/rng.h"
#include "ops/transfer.h"

namespace gradmill {
namespace {

AttentionMask mask_of(const TransformerSpec& spec) {
  if (spec.causal) return {.left = spec.window > 0 ? spec.window - 1 : -1, .right = 0};
  const int64_t reach = spec.window > 0 ? spec.window / 2 : -1;
  return {.left = reach, .right = reach};
}

Block::Options block_options(const TransformerSpec& spec, int64_t layer) {
  const std::string name = fmt::format("layers.{}", layer);
  const auto site = RngSite::kLayerSites + static_cast<uint32_t>(layer) * RngSite::kSitesPerLayer;
  // GPT-2's rule: what writes to the residual stream starts smaller the more layers there are.
  const float out_std = spec.init_std / std::sqrt(2.0f * static_cast<float>(spec.layers));
  return {.norm = spec.norm,
          .norm_eps = spec.norm_eps,
          .attention = {.name = name + ".attention",
                        .width = spec.width,
                        .heads = spec.heads,
                        .kv_heads = spec.kv_heads,
                        .head_dim = spec.head_dim,
                        .qkv_bias = spec.qkv_bias,
                        .out_bias = spec.out_bias,
                        .rope = spec.positions == PositionScheme::rope,
                        .qk_norm = spec.qk_norm,
                        .norm_eps = spec.norm_eps,
                        .mask = mask_of(spec),
                        .dropout = spec.dropout,
                        .dropout_site = site,
                        .init_std = spec.init_std,
                        .out_init_std = out_std},
          .mlp = {.name = name + ".mlp",
                  .width = spec.width,
                  .hidden = spec.mlp_width,
                  .activation = spec.activation,
                  .bias = spec.mlp_bias,
                  .init_std = spec.init_std,
                  .out_init_std = out_std},
          .name = name,
          .dropout = spec.dropout,
          .dropout_site = site + 1};
}

}  // namespace

struct Transformer::Activations {
  explicit Activations(size_t layers) : blocks(layers) {}

  std::vector<BlockSaved> blocks;
  TensorView x;  // (N, C) the stream after the last block
  Drop drop;     // of its last part
  NormStats stats;
  TensorView output;  // (N, C) its norm
};

Transformer::Transformer(TransformerSpec spec, AdapterPlan plan) : spec_(std::move(spec)), params_(std::move(plan)) {
  spec_.complete();
  const bool learned = spec_.positions == PositionScheme::learned;
  embedding_ = Embedding(params_, {.name = "embedding",
                                   .vocab = spec_.vocab,
                                   .width = spec_.width,
                                   .positions = learned ? spec_.max_positions : 0,
                                   .scale = spec_.embedding_scale,
                                   .init_std = spec_.init_std,
                                   .dropout = spec_.dropout});
  for (int64_t layer = 0; layer < spec_.layers; ++layer) blocks_.emplace_back(params_, block_options(spec_, layer));
  final_norm_ = Norm(params_, {.name = "norm", .kind = spec_.norm, .width = spec_.width, .eps = spec_.norm_eps});
  head_ = LmHead(params_, {.name = "head",
                           .width = spec_.width,
                           .vocab = spec_.vocab,
                           .tied_weight = spec_.tied ? embedding_.table() : kNoParam,
                           .init_std = spec_.init_std,
                           .chunk_rows = spec_.loss_chunk_rows});
  params_.check_plan();
}

TensorView Transformer::make_rope_table(ExecContext& ctx) const {
  if (spec_.positions != PositionScheme::rope) return {};
  const int64_t half = spec_.head_dim / 2;
  const TensorView table = ctx.alloc(ctx.persistent, {spec_.max_positions, spec_.head_dim}, DType::fp32, "rope table");
  if (ctx.dry) return table;
  std::vector<float> values(static_cast<size_t>(table.numel()));
  for (int64_t j = 0; j < half; ++j) {
    const float frequency =
        1.0f / std::pow(spec_.rope_theta, static_cast<float>(2 * j) / static_cast<float>(spec_.head_dim));
    for (int64_t position = 0; position < spec_.max_positions; ++position) {
      const float angle = static_cast<float>(position) * frequency;
      float* row = values.data() + position * spec_.head_dim;
      row[j] = std::cos(angle);
      row[half + j] = std::sin(angle);
    }
  }
  copy_to_device(ctx, table, values.data());
  return table;
}

std::vector<KvCache> Transformer::make_caches(Pass& pass, int64_t positions) const {
  std::vector<KvCache> caches;
  for (const Block& block : blocks_) {
    const NameScope scope(pass.ctx, "layers", static_cast<int>(caches.size()));
    caches.push_back(block.attention().make_cache(pass, positions));
  }
  return caches;
}

void Transformer::forward(Pass& pass, const TensorView& tokens, Activations& kept, const Visit* visit) const {
  const Shape shape{tokens.numel(), spec_.width};
  const DType dtype = pass.weights.dtype();
  const StreamBuffers buffers{pass.scratch(shape, "stream x"), pass.scratch(shape, "stream delta")};
  Stream stream{Operand(pass.slot(Slot::x, shape, dtype, "embedded")), {}};
  embedding_.forward(pass, tokens, stream.x.plain);
  if (visit) (*visit)("embedding", stream.x.plain);
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    const NameScope scope(pass.ctx, "layers", static_cast<int>(layer));
    blocks_[layer].forward(pass, stream, buffers, kept.blocks[layer]);
    if (visit) {
      (*visit)(fmt::format("layers.{}", layer), stream.x.plain);
      (*visit)(fmt::format("layers.{}", layer), stream.delta);
    }
  }
  const NameScope scope(pass.ctx, "final");
  kept.x = pass.slot(Slot::x, shape, dtype, "x");
  kept.stats = final_norm_.alloc_stats(pass, Slot::x, shape[0]);
  kept.output = pass.slot(Slot::x, shape, dtype, "norm");
  kept.drop = stream.drop;
  final_norm_.forward(pass, stream.x.plain, stream.delta, stream.drop, kept.x, kept.stats, Operand(kept.output));
  if (visit) (*visit)("norm", kept.output);
}

void Transformer::backward(Pass& pass, const TensorView& tokens, const Activations& kept,
                           const StreamGrad& grad) const {
  final_norm_.backward(
      pass,
      {.sum = kept.x, .stats = kept.stats, .dy = grad.dx, .dx = grad.dx, .dropped = grad.dropped, .drop = kept.drop});
  for (size_t layer = blocks_.size(); layer-- > 0;) {
    const NameScope scope(pass.ctx, "layers", static_cast<int>(layer));
    blocks_[layer].backward(pass, kept.blocks[layer], grad);
  }
  embedding_.backward(pass, tokens, grad.dx);
}

void Transformer::train(Pass& pass, const TensorView& tokens, const TensorView& targets) const {
  const ArenaScope saved(pass.ctx.saved), scratch(pass.ctx.scratch);
  Activations kept(blocks_.size());
  {
    const ArenaScope forward_scratch(pass.ctx.scratch);
    forward(pass, tokens, kept);
  }
  const Shape shape{tokens.numel(), spec_.width};
  StreamGrad grad{.dx = pass.scratch(shape, "d stream")};
  if (spec_.dropout) grad.dropped = pass.scratch(shape, "d stream, dropped");
  if (params_.max_rank() > 0) pass.adapters.room = pass.scratch({shape[0], params_.max_rank()}, "low-rank gradient");
  head_.loss(pass, kept.output, targets, grad.dx);
  backward(pass, tokens, kept, grad);
}

void Transformer::evaluate(Pass& pass, const TensorView& tokens, const TensorView& targets) const {
  const ArenaScope saved(pass.ctx.saved), scratch(pass.ctx.scratch);
  Activations kept(blocks_.size());
  forward(pass, tokens, kept);
  head_.loss(pass, kept.output, targets, {});
}

void Transformer::visit_activations(Pass& pass, const TensorView& tokens, const Visit& visit) const {
  const ArenaScope saved(pass.ctx.saved), scratch(pass.ctx.scratch);
  Activations kept(blocks_.size());
  forward(pass, tokens, kept, &visit);
}

void Transformer::logits(Pass& pass, const TensorView& tokens, int64_t begin, int64_t end, const TensorView& out,
                         std::span<const KvCache> caches) const {
  const ArenaScope saved(pass.ctx.saved), scratch(pass.ctx.scratch);
  Activations kept(blocks_.size());
  for (size_t layer = 0; layer < caches.size(); ++layer) kept.blocks[layer].attention.cache = caches[layer];
  forward(pass, tokens, kept);
  head_.logits(pass, kept.output.slice_rows(begin, end), out);
}

}  // namespace gradmill
