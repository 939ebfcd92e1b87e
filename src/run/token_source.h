// SPDX-License-Identifier: Apache-2.0
// TokenSource: what the data settings say about tokens: files, how they are read, and what a record becomes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokens/record_encoding.h"
#include "data/tokens/shard_set.h"
#include "data/records/source_list.h"
#include "run/instruction_encoding.h"
#include "run/run_data.h"

namespace gradmill {

// Shared, because the tokens to train on and those to validate on may be parts of one set.
using SharedShards = std::shared_ptr<const ShardSet>;

struct OpenShards {
  SharedShards shards;
  std::string origin, hash;
};

class TokenSource {
 public:
  // Both must outlive it.
  TokenSource(const RunConfig& config, const RunTokenizer& tokenizer);

  // The files of a list of paths with commas between them; a path that exists as it stands is one entry.
  std::vector<SourceFile> files(const std::string& paths) const;
  // Throws where shards() would, as far as that shows without tokenising.
  void check(const std::string& paths) const;
  // Shards as they are, or the tokens of files, from the cache.
  OpenShards shards(const std::string& paths, const RunDataOptions& options) const;

  const RecordEncoding& encoding() const { return encoding_; }
  ReadOptions read_options() const;
  // About what was read with the encoding; empty where all is well.
  std::string remarks() const { return log_->summary(); }

 private:
  OpenShards open_ready(const std::vector<std::string>& folders) const;

  const DataConfig& config_;
  const RunTokenizer& tokenizer_;
  std::shared_ptr<InstructionLog> log_;
  RecordEncoding encoding_;
};

}  // namespace gradmill
