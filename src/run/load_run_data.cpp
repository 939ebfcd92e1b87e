// SPDX-License-Identifier: Apache-2.0
#include "run/load_run_data.h"

#include "run/char_data.h"
#include "run/labelled_data.h"
#include "run/masked_data.h"
#include "run/model_path.h"
#include "run/run_options.h"
#include "run/shard_data.h"
#include "run/stream_data.h"

namespace gradmill {

namespace {

// Adds the classes of model.path, unless the caller has read them already.
std::unique_ptr<LabelledData> load_labelled(const RunConfig& config, RunDataOptions options) {
  std::optional<LabelMap> labels;
  const bool wanted = config.data.kind() == TaskKind::classify && !config.model.path.empty();
  if (wanted && options.labels == nullptr && options.labels_of_model == nullptr) {
    labels = labels_of_model(open_model_config(config.model.path));
    if (labels) options.labels_of_model = &*labels;
  }
  return std::make_unique<LabelledData>(config, options);
}

}  // namespace

std::unique_ptr<RunData> load_run_data(const RunConfig& config, const RunDataOptions& options) {
  if (config.data.path.empty()) return std::make_unique<CharData>(config, options);
  if (is_labelled(config.data.kind())) return load_labelled(config, options);
  std::unique_ptr<TextData> text;
  if (config.data.streaming) {
    text = std::make_unique<StreamData>(config, options);
  } else {
    text = std::make_unique<ShardData>(config, options);
  }
  if (config.data.kind() == TaskKind::mask) return std::make_unique<MaskedData>(config, std::move(text));
  return text;
}

CheckedData check_run_data(const RunConfig& config) {
  CheckedData checked{.shape = batch_shape(config)};
  if (config.data.path.empty()) {
    checked.vocab = CharData(config).tokenizer().tokenizer->vocab_size();
  } else if (is_labelled(config.data.kind())) {
    const std::unique_ptr<LabelledData> data = load_labelled(config, {});
    checked.vocab = data->tokenizer().tokenizer->vocab_size();
    checked.task = data->task();
    checked.shape = data->shape(checked.shape);
  } else {
    const RunTokenizer tokenizer = open_run_tokenizer(tokenizer_name(config));
    const TokenSource source(config, tokenizer);
    source.check(config.data.path);
    if (!config.data.validation_path.empty()) source.check(config.data.validation_path);
    checked.vocab = tokenizer.tokenizer->vocab_size();
    checked.task = task_without_data(config);
    if (config.data.kind() == TaskKind::mask) mask_rule(config, tokenizer);
  }
  return checked;
}

}  // namespace gradmill
