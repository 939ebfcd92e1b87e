// SPDX-License-Identifier: Apache-2.0
#include "train/run_model.h"

#include "train/model_folder.h"
#include "train/run_options.h"

namespace gradmill {
namespace {

// As transformers' classes for sequences have it.
void set_classifier(TransformerSpec& spec, int64_t outputs) {
  const bool encoder = !spec.causal;
  spec.head = HeadKind::classifier;
  spec.labels = outputs;
  spec.pooling = encoder ? Pooling::first : Pooling::last;
  spec.pooler = encoder ? PoolerKind::tanh : PoolerKind::none;
  spec.classifier_bias = encoder;
}

}  // namespace

std::string RunModel::config_json(std::optional<int32_t> eos) const { return model_config_json(spec, eos, task); }

RunModel open_run_model(const RunConfig& config, const RunTask& task, int64_t vocab) {
  RunModel model{.spec = model_spec(config, vocab), .task = task};
  if (!task.is_language()) set_classifier(model.spec, task.num_outputs());
  model.family = family_of(model.spec);
  return model;
}

}  // namespace gradmill
