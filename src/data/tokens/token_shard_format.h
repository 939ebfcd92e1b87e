// SPDX-License-Identifier: Apache-2.0
// The bytes of a token shard. All numbers are little-endian.
//
//   ShardHeader
//   tokens             u16 or u32 each, then zeros up to a multiple of 8 bytes
//   document ends      u64 each: the tokens up to and with the document's last; they never fall, the last is num_tokens
//   learned plane      with kShardLearned: a bit for every token in u64 words, the first token's lowest; then zeros
//   block checksums    u32 each: CRC-32C of every kShardBlockBytes of all between header and checksums
//   ShardTrailer
//
// The counts are at the end, so that a shard can be written from start to end, and a truncated one is noticed.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gradmill {

static_assert(std::endian::native == std::endian::little, "shards are mapped as they are");

inline constexpr std::array<char, 8> kShardMagic = {'G', 'M', 'T', 'O', 'K', 'E', 'N', 'S'};
inline constexpr std::array<char, 8> kShardEnd = {'G', 'M', 'T', 'K', 'E', 'N', 'D', '\n'};
// The newest version. A shard is written with the oldest version that can represent it: version 1 has no flags.
inline constexpr uint32_t kShardVersion = 2;
inline constexpr uint32_t kShardLearned = 1;  // flag: some tokens are not targets; the learned plane says which
// Small, because a whole block is read when the first of its tokens is needed.
inline constexpr uint64_t kShardBlockBytes = uint64_t{1} << 18;

struct ShardHeader {
  std::array<char, 8> magic = kShardMagic;
  uint32_t version = 1;
  uint32_t token_bytes = 0;  // 2 or 4
  uint64_t vocab_hash = 0;
  uint64_t vocab_size = 0;
  uint32_t flags = 0;
  std::array<char, 24> reserved{};
  uint32_t crc = 0;  // of all bytes before it
};
static_assert(sizeof(ShardHeader) == 64);

struct ShardTrailer {
  uint64_t num_tokens = 0;
  uint64_t num_documents = 0;
  uint32_t checksums_crc = 0;  // of the block checksums
  uint32_t crc = 0;            // of all bytes before it
  std::array<char, 8> end = kShardEnd;
};
static_assert(sizeof(ShardTrailer) == 32);

// The positions of the parts. Use it only for counts that have been checked against the file's size.
struct ShardLayout {
  uint64_t token_bytes, num_tokens, num_documents;
  bool has_learned;

  uint64_t ends_at() const { return sizeof(ShardHeader) + (num_tokens * token_bytes + 7) / 8 * 8; }
  uint64_t learned_at() const { return ends_at() + num_documents * sizeof(uint64_t); }
  uint64_t checksums_at() const { return learned_at() + (has_learned ? (num_tokens + 63) / 64 * sizeof(uint64_t) : 0); }
  uint64_t num_blocks() const {
    return (checksums_at() - sizeof(ShardHeader) + kShardBlockBytes - 1) / kShardBlockBytes;
  }
  uint64_t trailer_at() const { return checksums_at() + num_blocks() * sizeof(uint32_t); }
  uint64_t file_bytes() const { return trailer_at() + sizeof(ShardTrailer); }
  // Block i consists of the bytes [block_begin(i), block_begin(i + 1)) of the file.
  uint64_t block_begin(uint64_t block) const {
    return std::min(sizeof(ShardHeader) + block * kShardBlockBytes, checksums_at());
  }
};

}  // namespace gradmill
