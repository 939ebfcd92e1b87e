// SPDX-License-Identifier: Apache-2.0
#include "support/golden_model.h"

#include <algorithm>

#include "model_files/families/registry.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "support/goldens.h"

namespace gradmill::test {
namespace {

TransformerSpec spec_of(const SafeTensors& file) {
  const auto& about = file.metadata();
  const auto integer = [&](const char* key) { return std::stoll(about.at(key)); };
  TransformerSpec spec;
  if (about.at("family") == "gpt2") {
    spec = gpt2_spec(integer("vocab"), integer("layers"), integer("heads"), integer("width"), integer("context"));
  } else {
    spec = qwen3_spec(integer("vocab"), integer("layers"), integer("heads"), integer("kv_heads"), integer("width"),
                      integer("intermediate"), integer("context"));
    spec.head_dim = integer("head_dim");
    spec.qk_norm = about.at("qk_norm") == "true";
    spec.rope_theta = std::stof(about.at("rope_theta"));
  }
  spec.norm_eps = std::stof(about.at("norm_eps"));
  spec.tied = about.at("tied") == "true";
  return spec;
}

}  // namespace

GoldenModel::GoldenModel(const std::string& name, const std::string& prefix, SessionOptions options)
    : file_(golden_path(name)), family_(family_named(file_.metadata().at("family"))) {
  model_ = std::make_unique<Transformer>(spec_of(file_));
  session_ = std::make_unique<Session>(*model_, options);
  for (ParamId id = 0; id < model_->params().size(); ++id) {
    session_->weights().set(session_->context(), id, stored(prefix, id).data());
  }
}

double GoldenModel::number(const std::string& key) const { return std::stod(file_.metadata().at(key)); }

std::vector<float> GoldenModel::stored(const std::string& prefix, ParamId id) const {
  std::vector<float> values;
  for (const HfTensor& part : hf_tensors(family_, *model_, id)) {
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

MicroBatch batch_of(const TensorView& tokens, const TensorView& targets, int64_t seqs, int64_t length,
                    int64_t context) {
  MicroBatch batch;
  const auto rows = static_cast<size_t>(token_capacity(seqs * context));
  batch.tokens.assign(rows, 0);
  batch.targets.assign(rows, kIgnoredTarget);
  batch.positions.assign(rows, 0);
  for (int64_t row = 0; row < seqs * length; ++row) {
    batch.tokens[size_t(row)] = tokens.ptr<int32_t>()[row];
    batch.targets[size_t(row)] = targets.ptr<int32_t>()[row];
    batch.positions[size_t(row)] = static_cast<int32_t>(row % length);
    batch.num_targets += batch.targets[size_t(row)] != kIgnoredTarget;
  }
  for (int64_t seq = 0; seq <= seqs; ++seq) batch.cu_seqlens.push_back(static_cast<int32_t>(seq * length));
  batch.num_seqs = seqs;
  return batch;
}

}  // namespace gradmill::test
