// SPDX-License-Identifier: Apache-2.0
// TokenSource: the tokens that the data settings describe: their files, how these are read, and how records are
// encoded.
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

// Shared, because training and validation tokens may be parts of one set.
using SharedShards = std::shared_ptr<const ShardSet>;

struct OpenShards {
  SharedShards shards;
  std::string origin, hash;
};

class TokenSource {
 public:
  // Both arguments must outlive it.
  TokenSource(const RunConfig& config, const RunTokenizer& tokenizer);

  // The files of a comma-separated list of paths. An existing path that contains commas is a single entry.
  std::vector<SourceFile> files(const std::string& paths) const;
  // Throws if shards() would, as far as this can be known without tokenising.
  void check(const std::string& paths) const;
  // Existing shards, or the tokens of files from the cache, which are made if necessary.
  OpenShards shards(const std::string& paths, const RunDataOptions& options) const;

  const RecordEncoding& encoding() const { return encoding_; }
  ReadOptions read_options() const;
  // Remarks on what was read with the encoding; empty if there are none.
  std::string remarks() const { return log_->summary(); }

 private:
  OpenShards open_ready(const std::vector<std::string>& folders) const;

  const DataConfig& config_;
  const RunTokenizer& tokenizer_;
  std::shared_ptr<InstructionLog> log_;
  RecordEncoding encoding_;
};

}  // namespace gradmill
