// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/shard_set.h"

#include <algorithm>

#include "core/error.h"

namespace gradmill {
namespace {

// The last shard that begins at `index` or before it, so never an empty one.
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
    has_learned_plane_ |= shard.has_learned_plane();
    first_token_.push_back(first_token_.back() + shard.num_tokens());
    first_document_.push_back(first_document_.back() + shard.num_documents());
  }
}

int64_t ShardSet::document_end(int64_t document) const {
  const size_t shard = shard_of(first_document_, document);
  return first_token_[shard] + shards_[shard].document_end(document - first_document_[shard]);
}

template <class Visit>
void ShardSet::visit(int64_t first, int64_t count, Visit&& visit) const {
  if (count == 0) return;
  size_t shard = shard_of(first_token_, first);
  for (int64_t done = 0; done < count; ++shard) {
    const int64_t part = std::min(count - done, first_token_[shard + 1] - first - done);
    visit(shards_[shard], first + done - first_token_[shard], static_cast<size_t>(done), static_cast<size_t>(part));
    done += part;
  }
}

void ShardSet::read(int64_t first, std::span<int32_t> out) const {
  visit(first, std::ssize(out), [&](const TokenShard& shard, int64_t at, size_t offset, size_t count) {
    shard.read(at, out.subspan(offset, count));
  });
}

void ShardSet::hide_unlearned(int64_t first, std::span<int32_t> ids, int32_t hidden) const {
  visit(first, std::ssize(ids), [&](const TokenShard& shard, int64_t at, size_t offset, size_t count) {
    shard.hide_unlearned(at, ids.subspan(offset, count), hidden);
  });
}

int64_t ShardSet::count_learned(int64_t first, int64_t count) const {
  int64_t learned = 0;
  visit(first, count, [&](const TokenShard& shard, int64_t at, size_t, size_t part) {
    learned += shard.count_learned(at, static_cast<int64_t>(part));
  });
  return learned;
}

void ShardSet::check(int64_t first, int64_t count) const {
  visit(first, count,
        [](const TokenShard& shard, int64_t at, size_t, size_t part) { shard.check(at, static_cast<int64_t>(part)); });
}

void ShardSet::verify() const {
  for (const TokenShard& shard : shards_) shard.verify();
}

}  // namespace gradmill
