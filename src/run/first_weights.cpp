// SPDX-License-Identifier: Apache-2.0
#include "run/first_weights.h"

#include "adapters/peft_folder.h"
#include "model_files/load_weights.h"

namespace gradmill {
namespace {

// Quantised parameters are collected as a whole. Parameters that the files do not have keep their initial values.
class SessionFiller final : public WeightsFiller {
 public:
  SessionFiller(ExecContext& ctx, Weights& weights, uint64_t seed, FirstWeights which)
      : WeightsFiller(ctx, weights, seed), ctx_(ctx), weights_(weights), which_(which) {}

  bool wants(ParamId id) const override {
    return WeightsFiller::wants(id) && (which_ == FirstWeights::all || weights_.table().spec(id).trainable);
  }

  void rows(ParamId id, int64_t begin, int64_t count, const float* values) override {
    if (!weights_.is_quantised(id)) return WeightsFiller::rows(id, begin, count, values);
    const ParamSpec& spec = weights_.table().spec(id);
    whole_.insert(whole_.end(), values, values + count * spec.cols);
    if (begin + count < spec.rows) return;
    weights_.set(ctx_, id, whole_.data());
    whole_.clear();
  }
  void fresh(ParamId id) override {
    const ParamSpec& spec = weights_.table().spec(id);
    if (!spec.trainable && !spec.beside_model) WeightsFiller::fresh(id);
  }
  void finish() override {
    weights_.refresh_compute(ctx_);
    weights_.init_magnitudes(ctx_);
  }

 private:
  ExecContext& ctx_;
  Weights& weights_;
  FirstWeights which_;
  std::vector<float> whole_;
};

void load_base(const RunModel& model, const Transformer& network, Session& session,
               const std::function<void(const std::string&)>& note, FirstWeights which) {
  const WeightMap map = model.map_for(network);
  const bool adapters_come_later = model.adapters && !model.adapters->folder.empty();
  std::string fresh;
  for (const ParamId id : map.fresh) {
    const ParamSpec& spec = network.params().spec(id);
    const bool comes_later = spec.trainable && adapters_come_later;
    if (!spec.beside_model && !comes_later) fresh += (fresh.empty() ? "" : ", ") + spec.name;
  }
  if (!fresh.empty()) note("new, with random values: " + fresh);
  session.write_weights([&](ExecContext& ctx, Weights& weights) {
    SessionFiller filler(ctx, weights, session.options().seed, which);
    load_weights(*model.weights, map, network, filler);
  });
}

// Loads the values of the adapters' folder, which has all trained parameters.
void load_adapters(const RunModel& model, const Transformer& network, Session& session) {
  const ParamTable& params = network.params();
  std::vector<float> values(static_cast<size_t>(params.flat_size()));
  const TensorView flat(values.data(), DType::fp32, {params.flat_size()});
  load_adapter_tensors(SafeTensors(model.adapters->folder / kAdapterFile), model.family(), network, flat);
  session.write_weights([&](ExecContext& ctx, Weights& weights) {
    for (ParamId id = 0; id < params.size(); ++id) {
      if (params.segment(id) != nullptr) weights.load(ctx, id, params.view(id, flat));
    }
    weights.refresh_compute(ctx);
  });
}

}  // namespace

void load_first_weights(const RunModel& model, const Transformer& network, Session& session,
                        const std::function<void(const std::string&)>& note, FirstWeights which) {
  if (model.weights != nullptr) load_base(model, network, session, note, which);
  if (model.adapters && !model.adapters->folder.empty()) load_adapters(model, network, session);
}

}  // namespace gradmill
