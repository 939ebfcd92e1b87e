// SPDX-License-Identifier: Apache-2.0
// Token shards for tests: the token with index i over all shards is value_of(i).
#pragma once

#include <random>

#include "data/tokens/shard_set.h"
#include "support/temporary_folder.h"
#include "data/tokens/token_shard_writer.h"

namespace gradmill::test {

inline constexpr VocabId kWideVocab{77, 1 << 20};  // four bytes per id
inline int32_t value_of(int64_t index) { return static_cast<int32_t>(index + 1); }

// Writes documents of these lengths, one shard per list.
inline std::vector<std::filesystem::path> write_shards(const TemporaryFolder& folder,
                                                       const std::vector<std::vector<int64_t>>& shards,
                                                       const VocabId& vocab = kWideVocab) {
  std::vector<std::filesystem::path> paths;
  int64_t token = 0;
  for (const std::vector<int64_t>& lengths : shards) {
    paths.push_back(folder.path() / fmt::format("shard-{}.tokens", paths.size()));
    TokenShardWriter writer(paths.back(), vocab);
    for (int64_t length : lengths) {
      std::vector<int32_t> document;
      for (int64_t i = 0; i < length; ++i) document.push_back(value_of(token++));
      writer.add_document(document);
    }
    writer.finish();
  }
  return paths;
}

// Most are short, some are empty, and some are much longer than a context of 64.
inline std::vector<int64_t> mixed_lengths(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t kind = random() % 20;
    lengths.push_back(static_cast<int64_t>(kind == 0 ? 0 : kind == 1 ? random() % 400 : random() % 50));
  }
  return lengths;
}

}  // namespace gradmill::test
