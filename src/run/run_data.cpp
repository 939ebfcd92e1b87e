// SPDX-License-Identifier: Apache-2.0
#include "run/run_data.h"

#include "run/char_data.h"
#include "run/labelled_data.h"
#include "run/masked_data.h"
#include "run/run_options.h"
#include "run/shard_data.h"
#include "run/stream_data.h"

namespace gradmill {

std::unique_ptr<RunData> load_run_data(const RunConfig& config, const RunDataOptions& options) {
  if (config.data.path.empty()) return std::make_unique<CharData>(config, options);
  if (config.data.is_labelled()) return std::make_unique<LabelledData>(config, options);
  std::unique_ptr<RunData> text;
  if (config.data.streaming) {
    text = std::make_unique<StreamData>(config, options);
  } else {
    text = std::make_unique<ShardData>(config, options);
  }
  if (config.data.is_masked()) return std::make_unique<MaskedData>(config, std::move(text));
  return text;
}

CheckedData check_run_data(const RunConfig& config) {
  CheckedData checked{.sizes = session_options(config)};
  if (config.data.path.empty()) {
    checked.vocab = CharData(config).tokenizer().tokenizer->vocab_size();
  } else if (config.data.is_labelled()) {
    const LabelledData data(config);
    checked.vocab = data.tokenizer().tokenizer->vocab_size();
    checked.task = data.task();
    data.set_sizes(checked.sizes);
  } else {
    const RunTokenizer tokenizer = open_run_tokenizer(tokenizer_name(config));
    const TokenSource source(config, tokenizer);
    source.check(config.data.path);
    if (!config.data.validation_path.empty()) source.check(config.data.validation_path);
    checked.vocab = tokenizer.tokenizer->vocab_size();
    checked.task = task_without_data(config);
    if (config.data.is_masked()) mask_rule(config, tokenizer);
  }
  return checked;
}

RunTask task_without_data(const RunConfig& config) {
  if (config.data.task == "classify") return {.kind = RunTask::Kind::classes, .labels = LabelMap({"no", "yes"})};
  if (config.data.task == "regress") return {.kind = RunTask::Kind::numbers};
  if (config.data.is_masked()) return {.kind = RunTask::Kind::masked};
  return {};
}

}  // namespace gradmill
