// SPDX-License-Identifier: Apache-2.0
#include "data/shard_set.h"

#include <algorithm>

#include "core/error.h"

namespace gradmill {
namespace {

// The last shard that does not begin behind `index`: never an empty one before it.
size_t shard_of(const std::vector<int64_t>& firsts, int64_t index) {
  return static_cast<size_t>(std::upper_bound(firsts.begin(), firsts.end(), index) - firsts.begin()) - 1;
}

}  // namespace

ShardSet::ShardSet(std::span<const std::filesystem::path> paths) : first_token_{0}, first_document_{0} {
  if (paths.empty()) throw data_error("there is no token shard", "give at least one");
  for (const std::filesystem::path& path : paths) {
    const TokenShard& shard = shards_.emplace_back(path);
    if (shard.vocab() != vocab()) {
      throw data_error(
          fmt::format("{} and {} are of different vocabularies", shards_.front().path().string(), path.string()),
          "use shards that one tokenizer made");
    }
    first_token_.push_back(first_token_.back() + shard.num_tokens());
    first_document_.push_back(first_document_.back() + shard.num_documents());
  }
}

int64_t ShardSet::document_end(int64_t document) const {
  const size_t shard = shard_of(first_document_, document);
  return first_token_[shard] + shards_[shard].document_end(document - first_document_[shard]);
}

void ShardSet::read(int64_t first, std::span<int32_t> out) const {
  if (out.empty()) return;
  for (size_t shard = shard_of(first_token_, first); !out.empty(); ++shard) {
    const size_t count = std::min(out.size(), static_cast<size_t>(first_token_[shard + 1] - first));
    shards_[shard].read(first - first_token_[shard], out.first(count));
    out = out.subspan(count);
    first += static_cast<int64_t>(count);
  }
}

void ShardSet::verify() const {
  for (const TokenShard& shard : shards_) shard.verify();
}

}  // namespace gradmill
