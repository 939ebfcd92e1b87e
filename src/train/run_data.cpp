// SPDX-License-Identifier: Apache-2.0
#include "train/run_data.h"

#include "train/char_data.h"
#include "train/shard_data.h"
#include "train/stream_data.h"

namespace gradmill {

std::unique_ptr<RunData> load_run_data(const RunConfig& config, const RunDataOptions& options) {
  if (config.data.path.empty()) return std::make_unique<CharData>(config, options);
  if (config.data.streaming) return std::make_unique<StreamData>(config, options);
  return std::make_unique<ShardData>(config, options);
}

int64_t check_run_data(const RunConfig& config) {
  if (config.data.path.empty()) return CharData(config).tokenizer().tokenizer->vocab_size();
  const RunTokenizer tokenizer = open_run_tokenizer(config.data.tokenizer);
  const TokenSource source(config, tokenizer);
  source.check(config.data.path);
  if (!config.data.validation_path.empty()) source.check(config.data.validation_path);
  return tokenizer.tokenizer->vocab_size();
}

}  // namespace gradmill
