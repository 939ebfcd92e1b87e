// SPDX-License-Identifier: Apache-2.0
// A base whose files are read once, for several trials.
#include <gtest/gtest.h>

#include <set>

#include "model_files/families/registry.h"
#include "model_files/load_weights.h"
#include "run/first_weights.h"
#include "run/run_options.h"
#include "session/session.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kVocab = 33;

// Remembers which tensors were read.
class WatchedSource final : public TensorSource {
 public:
  explicit WatchedSource(const TensorSource& from) : from_(from) {}
  const std::vector<SourceTensor>& tensors() const override { return from_.tensors(); }
  void read_rows(size_t index, int64_t begin, int64_t end, float* out) const override {
    read_.insert(tensors()[index].name);
    from_.read_rows(index, begin, end, out);
  }
  std::set<std::string> take() { return std::exchange(read_, {}); }

 private:
  const TensorSource& from_;
  mutable std::set<std::string> read_;
};

class SharedBase : public testing::Test {
 protected:
  SharedBase() {
    config_.model.layers = 2;
    config_.model.heads = 4;
    config_.model.width = 64;
    config_.model.context = 20;
    config_.machine.device = "cpu";
    config_.machine.threads = 2;
    config_.model.dropout = 0;
    const TransformerSpec spec = model_spec(config_, kVocab);
    described_.hf = new_model_config(family_named(config_.model.style), spec);
    base_.emplace(spec);
    base_session_.emplace(*base_, options(99));
    files_.emplace(*base_, described_.family(), fetch_weights(base_session_->context(), base_session_->weights()));
    watched_ = std::make_shared<WatchedSource>(*files_);
    described_.weights = watched_;
    AdapterPlan plan{.freezes_base = true, .trained = {"norm.weight"}};
    plan.linears["layers.0.attention.out"] = {{"o_proj", config_.model.width, 4, 2.0f}};
    described_.network = std::make_shared<const Transformer>(spec, plan);
  }

  SessionOptions options(uint64_t seed) const {
    SessionOptions options = session_options(config_);
    options.seed = seed;
    return options;
  }
  std::set<std::string> load(const Transformer& model, Session& session, FirstWeights which = FirstWeights::all) {
    load_first_weights(
        described_, model, session, [](const std::string&) {}, which);
    return watched_->take();
  }
  void expect_same_weights(const Transformer& model, Session& a, Session& b) {
    for (ParamId id = 0; id < model.params().size(); ++id) {
      expect_same_bits(a.weights().get(a.context(), id), b.weights().get(b.context(), id),
                       model.params().spec(id).name);
    }
  }

  RunConfig config_;
  RunModel described_;
  std::optional<Transformer> base_;
  std::optional<Session> base_session_;
  std::optional<ParamSource> files_;
  std::shared_ptr<WatchedSource> watched_;
};

TEST_F(SharedBase, OnlyTheFirstSessionReadsFrozenWeights) {
  const Transformer& model = *described_.network;
  SessionOptions beside = options(1), reading = options(1);
  beside.frozen_beside_slab = true;
  Session own(model, options(1)), first(model, beside);
  EXPECT_EQ(load(model, own).size(), files_->tensors().size());
  EXPECT_EQ(load(model, first).size(), files_->tensors().size());
  reading.frozen = first.share_frozen();
  Session second(model, reading);
  EXPECT_EQ(load(model, second), std::set<std::string>{"transformer.ln_f.weight"});
  expect_same_weights(model, first, own);
  expect_same_weights(model, second, own);
}

TEST_F(SharedBase, AfterAResetOnlyTrainedWeightsAreRead) {
  const Transformer& model = *described_.network;
  Session session(model, options(1)), fresh(model, options(2));
  load(model, session);
  load(model, fresh);
  session.reset(2, session.options().adamw, 0);
  EXPECT_EQ(load(model, session, FirstWeights::trained), std::set<std::string>{"transformer.ln_f.weight"});
  expect_same_weights(model, session, fresh);
}

}  // namespace
}  // namespace gradmill::test
