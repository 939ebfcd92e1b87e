// SPDX-License-Identifier: Apache-2.0
// ShardSet: several shards as one sequence of tokens and documents, numbered in the order of the shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/tokens/token_shard.h"

namespace gradmill {

class ShardSet {
 public:
  // Throws a data_error if a shard cannot be used, if there are none, or if their vocabularies differ.
  explicit ShardSet(std::span<const std::filesystem::path> paths);

  const VocabId& vocab() const { return shards_.front().vocab(); }
  int64_t num_tokens() const { return first_token_.back(); }
  int64_t num_documents() const { return first_document_.back(); }
  // One past the document's last token, where the next document begins.
  int64_t document_end(int64_t document) const;

  // Reads tokens [first, first + out.size()), which must exist, across shards. May be called from any thread. Throws
  // the errors of TokenShard::read.
  void read(int64_t first, std::span<int32_t> out) const;
  // The functions of TokenShard, across shards. In shards without a learned plane, all tokens are learned.
  bool has_learned_plane() const { return has_learned_plane_; }
  void hide_unlearned(int64_t first, std::span<int32_t> ids, int32_t hidden) const;
  int64_t count_learned(int64_t first, int64_t count) const;
  void check(int64_t first, int64_t count) const;
  // Checks all tokens of all shards.
  void verify() const;

 private:
  // Calls visit(shard, first token in it, offset from `first`, count) for each shard that contains some of the tokens.
  template <class Visit>
  void visit(int64_t first, int64_t count, Visit&& visit) const;

  std::vector<TokenShard> shards_;
  bool has_learned_plane_ = false;
  std::vector<int64_t> first_token_, first_document_;  // of each shard, then the totals
};

}  // namespace gradmill
