// SPDX-License-Identifier: Apache-2.0
#include "support/golden_family.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "model_files/families/registry.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/transfer.h"
#include "support/goldens.h"

namespace gradmill::test {
namespace {

constexpr size_t kArenaBytes = size_t{16} << 20;
constexpr int64_t kUnusedSeqs = 3;

using Setter = std::function<void(TransformerSpec&, const std::string&)>;

template <class T>
T number(const std::string& text) {
  return static_cast<T>(std::stod(text));
}

template <class Owner, class T>
Setter field(Owner TransformerSpec::*owner, T Owner::*member) {
  return [=](TransformerSpec& spec, const std::string& text) {
    if constexpr (std::is_same_v<T, bool>) {
      (spec.*owner).*member = text == "true";
    } else {
      (spec.*owner).*member = number<T>(text);
    }
  };
}

template <class T>
Setter field(T TransformerSpec::*member) {
  return [=](TransformerSpec& spec, const std::string& text) {
    if constexpr (std::is_same_v<T, bool>) {
      spec.*member = text == "true";
    } else {
      spec.*member = number<T>(text);
    }
  };
}

template <class T>
Setter choice(T TransformerSpec::*member, std::map<std::string, T> values) {
  return [=](TransformerSpec& spec, const std::string& text) { spec.*member = values.at(text); };
}

void set_scaling_kind(TransformerSpec& spec, const std::string& text) {
  const std::map<std::string, RopeScalingKind> kinds = {{"linear", RopeScalingKind::linear},
                                                        {"dynamic", RopeScalingKind::dynamic},
                                                        {"llama3", RopeScalingKind::llama3},
                                                        {"yarn", RopeScalingKind::yarn}};
  spec.rope_scaling.kind = kinds.at(text);
}

void set_local_layers(TransformerSpec& spec, const std::string& text) {
  for (char flag : text) spec.local_layers.push_back(flag == '1');
}

const std::map<std::string, Setter>& setters() {
  using S = TransformerSpec;
  static const std::map<std::string, Setter> all = {
      {"vocab", field(&S::vocab)},
      {"layers", field(&S::layers)},
      {"width", field(&S::width)},
      {"heads", field(&S::heads)},
      {"kv_heads", field(&S::kv_heads)},
      {"head_dim", field(&S::head_dim)},
      {"mlp_width", field(&S::mlp_width)},
      {"max_positions", field(&S::max_positions)},
      {"positions",
       choice(&S::positions,
              {{"learned", PositionScheme::learned}, {"rope", PositionScheme::rope}, {"none", PositionScheme::none}})},
      {"position_offset", field(&S::position_offset)},
      {"rope_theta", field(&S::rope_theta)},
      {"local_rope_theta", field(&S::local_rope_theta)},
      {"rope_scaling.kind", set_scaling_kind},
      {"rope_scaling.factor", field(&S::rope_scaling, &RopeScaling::factor)},
      {"rope_scaling.original_context", field(&S::rope_scaling, &RopeScaling::original_context)},
      {"rope_scaling.beta_fast", field(&S::rope_scaling, &RopeScaling::beta_fast)},
      {"rope_scaling.beta_slow", field(&S::rope_scaling, &RopeScaling::beta_slow)},
      {"norm", choice(&S::norm, {{"rms", NormKind::rms}, {"layer", NormKind::layer}})},
      {"norm_placement", choice(&S::norm_placement, {{"before", NormPlacement::before},
                                                     {"after", NormPlacement::after},
                                                     {"around", NormPlacement::around},
                                                     {"output", NormPlacement::output}})},
      {"norm_eps", field(&S::norm_eps)},
      {"norm_offset", field(&S::norm_offset)},
      {"norm_bias", field(&S::norm_bias)},
      {"first_norm", field(&S::first_norm)},
      {"final_norm", field(&S::final_norm)},
      {"embedding_norm", field(&S::embedding_norm)},
      {"embedding_scale", field(&S::embedding_scale)},
      {"token_types", field(&S::token_types)},
      {"qk_norm", field(&S::qk_norm)},
      {"qk_norm_all_heads", field(&S::qk_norm_all_heads)},
      {"activation", choice(&S::activation, {{"gelu_erf", Activation::gelu_erf},
                                             {"gelu_tanh", Activation::gelu_tanh},
                                             {"swiglu", Activation::swiglu},
                                             {"geglu_erf", Activation::geglu_erf},
                                             {"geglu_tanh", Activation::geglu_tanh}})},
      {"qkv_bias", field(&S::qkv_bias)},
      {"out_bias", field(&S::out_bias)},
      {"mlp_bias", field(&S::mlp_bias)},
      {"causal", field(&S::causal)},
      {"window", field(&S::window)},
      {"local_layers", set_local_layers},
      {"attention_scale", field(&S::attention_scale)},
      {"disentangled.buckets", field(&S::disentangled, &DisentangledSpec::buckets)},
      {"disentangled.max_distance", field(&S::disentangled, &DisentangledSpec::max_distance)},
      {"disentangled.log_buckets", field(&S::disentangled, &DisentangledSpec::log_buckets)},
      {"disentangled.content_to_position", field(&S::disentangled, &DisentangledSpec::content_to_position)},
      {"disentangled.position_to_content", field(&S::disentangled, &DisentangledSpec::position_to_content)},
      {"disentangled.share_keys", field(&S::disentangled, &DisentangledSpec::share_keys)},
      {"disentangled.norm_table", field(&S::disentangled, &DisentangledSpec::norm_table)},
      {"tied", field(&S::tied)},
      {"head", choice(&S::head, {{"causal_lm", HeadKind::causal_lm},
                                 {"masked_lm", HeadKind::masked_lm},
                                 {"classifier", HeadKind::classifier}})},
      {"labels", field(&S::labels)},
      {"pooling", choice(&S::pooling, {{"first", Pooling::first}, {"last", Pooling::last}, {"mean", Pooling::mean}})},
      {"pooler",
       choice(&S::pooler,
              {{"tanh", PoolerKind::tanh}, {"gelu", PoolerKind::gelu}, {"gelu_norm", PoolerKind::gelu_norm}})},
      {"classifier_bias", field(&S::classifier_bias)},
      {"mlm_transform_bias", field(&S::mlm_transform_bias)},
      {"logit_softcap", field(&S::logit_softcap)},
  };
  return all;
}

}  // namespace

std::vector<std::string> family_goldens() {
  std::vector<std::string> names;
  const auto add = [&](const std::string& family, std::initializer_list<const char*> models) {
    for (const char* model : models) names.push_back(family + model);
  };
  add("llama", {"_linear", "_dynamic", "_llama3", "_yarn", "_packed", "_regression"});
  add("gpt2", {"_classifier"});
  add("mistral", {"", "_classifier"});
  add("qwen2", {""});
  add("qwen3", {"_window"});
  add("gemma3", {"", "_scaled", "_classifier"});
  add("olmo2", {"", "_classifier"});
  add("bert", {"_classifier", "_regression", "_mlm"});
  add("roberta", {"_classifier", "_mlm"});
  add("xlm_roberta", {"_classifier"});
  add("deberta", {"_classifier", "_unshared", "_c2p", "_mlm"});
  add("modernbert", {"_classifier", "_mean", "_mlm"});
  return names;
}

TransformerSpec family_spec(const SafeTensors& file) {
  TransformerSpec spec;
  constexpr std::string_view kPrefix = "spec.";
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(kPrefix)) setters().at(key.substr(kPrefix.size()))(spec, value);
  }
  return spec;
}

const Family& family_of(const SafeTensors& file) {
  std::string name = file.metadata().at("family");
  std::replace(name.begin(), name.end(), '_', '-');
  return family_named(name);
}

GoldenFamily::GoldenFamily(const std::string& name, Device device, float dropout)
    : file_(golden_path("family_" + name)),
      model_(std::make_unique<Transformer>([&] {
        TransformerSpec spec = family_spec(file_);
        spec.dropout = dropout > 0;
        return spec;
      }())),
      device_(make_test_device(device, kArenaBytes)) {
  device_->attach(ctx_);
  ctx_.pool = &pool_;
  ctx_.kernels.tf32 = false;
  const TensorView scalars =
      ctx_.alloc(ctx_.persistent, {static_cast<int64_t>(sizeof(StepScalars))}, DType::int8, "scalars");
  ctx_.scalars = new (scalars.data) StepScalars;
  ctx_.scalars->dropout = dropout;
  weights_.emplace(ctx_, model_->params(), DType::fp32);
  grads_.emplace(ctx_, model_->params());
  for (ParamId id = 0; id < model_->params().size(); ++id) weights_->set(ctx_, id, stored("", id).data());
  tables_ = model_->make_position_tables(ctx_, model_->spec().max_positions);
  upload_batch();
}

TensorView GoldenFamily::upload(const std::vector<int32_t>& values) {
  const TensorView view = ctx_.alloc(ctx_.persistent, {std::ssize(values)}, DType::int32, "ints");
  copy_to_device(ctx_, view, values.data());
  return view;
}

// The sequences one after the other, then empty sequences and padding rows.
void GoldenFamily::upload_batch() {
  const TensorView lengths = file_.at("lengths");
  num_seqs_ = lengths.numel();
  num_rows_ = file_.at("input_ids").numel();
  const auto capacity = static_cast<size_t>(token_capacity(num_rows_));
  std::vector<int32_t> offsets = {0}, positions;
  for (int64_t s = 0; s < num_seqs_; ++s) {
    const int32_t length = lengths.ptr<int32_t>()[s];
    offsets.push_back(offsets.back() + length);
    for (int32_t i = 0; i < length; ++i) positions.push_back(i);
    seq_.max_len = std::max<int64_t>(seq_.max_len, length);
  }
  seq_.max_seqs = num_seqs_ + kUnusedSeqs;
  offsets.resize(static_cast<size_t>(seq_.max_seqs) + 1, offsets.back());
  positions.resize(capacity, 0);
  seq_.positions = upload(positions);
  seq_.cu_q = seq_.cu_kv = upload(offsets);
  const auto padded = [&](const char* name, size_t size, int32_t rest) {
    const TensorView from = file_.at(name);
    std::vector<int32_t> values(from.ptr<int32_t>(), from.ptr<int32_t>() + from.numel());
    values.resize(size, rest);
    return upload(values);
  };
  inputs_.tokens = padded("input_ids", capacity, 0);
  if (model_->spec().token_types > 1) inputs_.token_types = padded("token_types", capacity, 0);
  const bool classifier = model_->spec().head == HeadKind::classifier;
  const auto num_targets = classifier ? static_cast<size_t>(seq_.max_seqs) : capacity;
  const TensorView targets = file_.at("targets");
  double weight = 0;
  if (classifier && model_->spec().labels == 1) {
    std::vector<float> values(targets.ptr<float>(), targets.ptr<float>() + targets.numel());
    values.resize(num_targets, std::nanf(""));
    targets_ = ctx_.alloc(ctx_.persistent, {std::ssize(values)}, DType::fp32, "targets");
    copy_to_device(ctx_, targets_, values.data());
    weight = double(num_seqs_);
  } else {
    // Unused sequences get a target, which must not count.
    targets_ = padded("targets", num_targets, classifier ? 0 : kIgnoredTarget);
    const bool weighted = file_.contains("class_weights");
    if (weighted) {
      const TensorView values = file_.at("class_weights");
      class_weights_ = ctx_.alloc(ctx_.persistent, values.shape, DType::fp32, "class weights");
      copy_to_device(ctx_, class_weights_, values.data);
    }
    for (int64_t i = 0; i < targets.numel(); ++i) {
      const int32_t target = targets.ptr<int32_t>()[i];
      if (target != kIgnoredTarget) weight += weighted ? file_.at("class_weights").ptr<float>()[target] : 1.0;
    }
  }
  ctx_.scalars->inv_targets = static_cast<float>(1 / weight);
}

Pass GoldenFamily::pass(bool training, SavePolicy policy) {
  ctx_.scalars->loss_sum = 0;
  return {.ctx = ctx_,
          .weights = *weights_,
          .grads = training ? &*grads_ : nullptr,
          .seq = seq_,
          .policy = policy,
          .tables = tables_,
          .class_weights = class_weights_};
}

double GoldenFamily::train(SavePolicy policy) {
  Pass p = pass(true, policy);
  grads_->begin_step();
  model_->train(p, inputs_, {targets_});
  return mean_loss();
}

void GoldenFamily::move_weights(const std::vector<float>& direction, double step) {
  const TensorView flat = weights_->flat_master();
  assert(flat.numel() == std::ssize(direction));
  std::vector<float> values(direction.size());
  copy_to_host(ctx_, values.data(), flat);
  for (size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(step * direction[i]);
  copy_to_device(ctx_, flat, values.data());
}

double GoldenFamily::evaluate() {
  Pass p = pass(false, SavePolicy::forward_only());
  model_->evaluate(p, inputs_, {targets_});
  return mean_loss();
}

std::vector<float> GoldenFamily::logits() {
  const ArenaScope scope(ctx_.persistent);
  const bool classifier = model_->spec().head == HeadKind::classifier;
  const Shape shape = classifier ? Shape{seq_.max_seqs, model_->spec().labels} : Shape{num_rows_, model_->spec().vocab};
  const TensorView out = ctx_.alloc(ctx_.persistent, shape, DType::fp32, "logits");
  Pass p = pass(false, SavePolicy::forward_only());
  if (classifier) {
    model_->class_logits(p, inputs_, out);
  } else {
    model_->logits(p, inputs_, 0, num_rows_, out);
  }
  std::vector<float> values(static_cast<size_t>(out.numel()));
  copy_to_host(ctx_, values.data(), out);
  values.resize(static_cast<size_t>((classifier ? num_seqs_ : num_rows_) * shape[1]));
  return values;
}

std::vector<float> GoldenFamily::cached_logits(int64_t prompt) {
  const ArenaScope scope(ctx_.persistent), saved(ctx_.saved);
  const int64_t length = file_.at("lengths").ptr<int32_t>()[0];
  const TensorView out = ctx_.alloc(ctx_.persistent, {1, model_->spec().vocab}, DType::fp32, "logits");
  Pass p = pass(false, SavePolicy::forward_only());
  const std::vector<KvCache> caches = model_->make_caches(p, length);
  p.seq.max_seqs = 1;
  for (int64_t begin = 0, end = prompt; begin < length; begin = end++) {
    const auto rows = static_cast<int32_t>(end - begin);
    p.seq.positions = seq_.positions.slice_rows(begin, end);
    p.seq.cu_q = upload({0, rows});
    p.seq.cu_kv = upload({0, static_cast<int32_t>(end)});
    model_->logits(p, {.tokens = inputs_.tokens.slice_rows(begin, end), .token_types = {}}, rows - 1, rows, out,
                   caches);
  }
  std::vector<float> values(static_cast<size_t>(out.numel()));
  copy_to_host(ctx_, values.data(), out);
  return values;
}

std::vector<float> GoldenFamily::hidden() {
  const ArenaScope scope(ctx_.persistent);
  const TensorView out =
      ctx_.alloc(ctx_.persistent, {inputs_.tokens.numel(), model_->spec().width}, DType::fp32, "hidden");
  Pass p = pass(false, SavePolicy::forward_only());
  model_->hidden(p, inputs_, out);
  std::vector<float> values(static_cast<size_t>(out.numel()));
  copy_to_host(ctx_, values.data(), out);
  values.resize(static_cast<size_t>(num_rows_ * out.cols()));
  return values;
}

std::vector<float> GoldenFamily::stored(const std::string& prefix, ParamId id) const {
  std::vector<float> values;
  for (const HfTensor& part : hf_tensors(family_of(file_), *model_, id)) {
    const TensorView view = file_.at(prefix + part.name);
    const float* data = view.ptr<float>();
    if (!part.transposed) {
      values.insert(values.end(), data, data + view.numel());
      continue;
    }
    for (int64_t out = 0; out < view.shape[1]; ++out) {
      for (int64_t in = 0; in < view.shape[0]; ++in) values.push_back(data[in * view.shape[1] + out]);
    }
  }
  return values;
}

}  // namespace gradmill::test
