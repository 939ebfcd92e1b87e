// SPDX-License-Identifier: Apache-2.0
#include "run/shard_data.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "run/run_options.h"

namespace gradmill {

int64_t held_out_begin(const ShardSet& shards, double fraction) {
  const int64_t total = shards.num_tokens();
  const auto target = static_cast<int64_t>(static_cast<double>(total) * (1 - fraction));
  if (target < 2 || total - target < 2) {
    throw data_error(fmt::format("{} tokens are too few to hold out a fraction of {}", total, fraction),
                     "use more data, or name data.validation_path");
  }
  const int64_t end = shards.document_end(document_of(shards, target - 1));
  return end - target > (total - target) / 2 ? target : end;
}

ShardData::ShardData(const RunConfig& config, const RunDataOptions& options)
    : TextData(config.data.path, options.tokenizer ? *options.tokenizer : open_run_tokenizer(tokenizer_name(config))),
      task_(task_without_data(config)),
      loading_(packed_loader_options(config)) {
  loading_.rank = options.rank;
  loading_.num_ranks = options.num_ranks;
  const TokenSource source(config, tokenizer_);
  OpenShards training = source.shards(config.data.path, options);
  shards_ = std::move(training.shards);
  origin_ = std::move(training.origin);
  hash_ = std::move(training.hash);
  const PackOptions packing = pack_options(config);
  const int64_t eval_rows = batch_shape(config, options.num_ranks).eval_seqs;
  if (config.data.validation_path.empty()) {
    num_train_tokens_ = held_out_begin(*shards_, config.data.validation_fraction);
    validation_.emplace(shards_, TokenRange{num_train_tokens_, shards_->num_tokens()}, packing, eval_rows);
  } else {
    num_train_tokens_ = shards_->num_tokens();
    validation_.emplace(source.shards(config.data.validation_path, options).shards, packing, eval_rows);
  }
  plan_.emplace(*shards_, packing, TokenRange{0, num_train_tokens_});
}

std::string ShardData::describe() const {
  const double fill = double(num_train_tokens_) / double(plan_->num_rows() * plan_->context());
  return fmt::format(
      "{}: {} documents, vocabulary {}; {} tokens for training in {} rows, {:.1f}% full, {} for validation", name_,
      shards_->num_documents(), tokenizer_.tokenizer->vocab_size(), num_train_tokens_, plan_->num_rows(), 100 * fill,
      validation_->num_tokens());
}

// The number of steps after which every token has come.
int64_t ShardData::steps_per_epoch() const {
  return (plan_->num_rows() + loading_.batch_size - 1) / loading_.batch_size;
}

std::unique_ptr<BatchSource> ShardData::open_edited(const DataPosition& from, const CrewNote& note,
                                                    EditBatch edit) const {
  PackedLoaderOptions options = loading_;
  options.note = note;
  options.edit = std::move(edit);
  return std::make_unique<StepSource<PackedLoader>>(*plan_, options, from.step);
}

}  // namespace gradmill
