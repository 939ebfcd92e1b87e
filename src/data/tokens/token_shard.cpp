// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/token_shard.h"

#include <algorithm>
#include <cstring>

#include "core/crc32c.h"
#include "core/error.h"

namespace gradmill {
namespace {

template <class T>
T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

template <class T>
std::span<const T> as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// The index of the first token outside the vocabulary, or the number of tokens. The maximum is computed first, because
// that loop has no branches.
template <class T>
size_t first_unknown(std::span<const T> tokens, uint64_t vocab_size) {
  T most = 0;
  for (T token : tokens) most = std::max(most, token);
  if (most < vocab_size) return tokens.size();
  return static_cast<size_t>(std::find_if(tokens.begin(), tokens.end(), [&](T token) { return token >= vocab_size; }) -
                             tokens.begin());
}

}  // namespace

TokenShard::TokenShard(const std::filesystem::path& path) : path_(path), file_(path) {
  const std::span<const std::byte> file = file_.bytes();
  const auto header = file.size() < sizeof(ShardHeader) ? ShardHeader{.magic = {}} : load<ShardHeader>(file);
  if (header.magic != kShardMagic) {
    throw data_error(fmt::format("{}: not a token shard", path_.string()), "give files that Gradmill tokenised");
  }
  if (header.version < 1 || header.version > kShardVersion) {
    throw data_error(
        fmt::format("{}: format version {}, known are 1 to {}", path_.string(), header.version, kShardVersion),
        "tokenise the data again with this version");
  }
  if (header.crc != crc32c(file.first(offsetof(ShardHeader, crc)))) refuse("the header (bytes 0 to 63) is damaged");
  if (header.flags & ~(header.version == 1 ? 0 : kShardLearned)) refuse("the header's flags are unknown");
  if ((header.token_bytes != 2 && header.token_bytes != 4) || header.vocab_size < 1 || header.vocab_size > INT32_MAX) {
    refuse("the header's sizes make no sense");
  }
  vocab_ = {header.vocab_hash, static_cast<int64_t>(header.vocab_size)};
  layout_.token_bytes = header.token_bytes;
  layout_.has_learned = (header.flags & kShardLearned) != 0;
  const ShardTrailer trailer = check_trailer();
  layout_.num_tokens = trailer.num_tokens;
  layout_.num_documents = trailer.num_documents;
  if (layout_.file_bytes() != file.size()) {
    refuse(fmt::format("it has {} bytes instead of {}", file.size(), layout_.file_bytes()));
  }
  checksums_ = as<uint32_t>(bytes(layout_.checksums_at(), layout_.trailer_at()));
  if (crc32c(std::as_bytes(checksums_)) != trailer.checksums_crc) {
    refuse(fmt::format("the checksums (bytes {} to {}) are damaged", layout_.checksums_at(), layout_.trailer_at() - 1));
  }
  ends_ = as<uint64_t>(bytes(layout_.ends_at(), layout_.learned_at()));
  learned_ = as<uint64_t>(bytes(layout_.learned_at(), layout_.checksums_at()));
  checked_ = std::make_unique<std::atomic<bool>[]>(layout_.num_blocks());
  check_ends();
  file_.check();
}

void TokenShard::refuse(std::string_view what) const {
  file_.check();  // a file that became shorter is the cause
  throw data_error(fmt::format("{}: {}", path_.string(), what), "copy or tokenise this shard again");
}

// Returns counts that are no larger than the file, so that no sum of sizes can overflow.
ShardTrailer TokenShard::check_trailer() const {
  const std::span<const std::byte> file = file_.bytes();
  if (file.size() < sizeof(ShardHeader) + sizeof(ShardTrailer)) refuse("the end is missing");
  const std::span<const std::byte> last = file.last(sizeof(ShardTrailer));
  const auto trailer = load<ShardTrailer>(last);
  if (trailer.end != kShardEnd) refuse("the end is missing or damaged");
  if (trailer.crc != crc32c(last.first(offsetof(ShardTrailer, crc)))) {
    refuse(fmt::format("the trailer (from byte {} on) is damaged", file.size() - sizeof(ShardTrailer)));
  }
  if (trailer.num_tokens > file.size() || trailer.num_documents > file.size()) {
    refuse(fmt::format("{} tokens in {} documents do not fit into its {} bytes", trailer.num_tokens,
                       trailer.num_documents, file.size()));
  }
  return trailer;
}

void TokenShard::check_ends() const {
  check_blocks(layout_.ends_at(), layout_.learned_at());
  uint64_t before = 0;
  for (size_t document = 0; document < ends_.size(); ++document) {
    if (ends_[document] < before || ends_[document] > layout_.num_tokens) {
      refuse(fmt::format("document {} ends at token {}, the one before it at {}, of {}", document, ends_[document],
                         before, layout_.num_tokens));
    }
    before = ends_[document];
  }
  if (before != layout_.num_tokens) {
    refuse(fmt::format("{} tokens are in documents, of {}", before, layout_.num_tokens));
  }
}

void TokenShard::check_blocks(uint64_t begin, uint64_t end) const {
  if (begin == end) return;
  const uint64_t last = (end - 1 - sizeof(ShardHeader)) / kShardBlockBytes;
  for (uint64_t block = (begin - sizeof(ShardHeader)) / kShardBlockBytes; block <= last; ++block) {
    // Threads may check the same block at the same time, with the same result.
    if (checked_[block].load(std::memory_order_relaxed)) continue;
    check_block(block);
    checked_[block].store(true, std::memory_order_relaxed);
  }
}

void TokenShard::check_block(uint64_t block) const {
  const uint64_t begin = layout_.block_begin(block), end = layout_.block_begin(block + 1);
  const uint64_t tokens_end = sizeof(ShardHeader) + layout_.num_tokens * layout_.token_bytes;
  if (crc32c(bytes(begin, end)) != checksums_[block]) {
    const uint64_t first = (begin - sizeof(ShardHeader)) / layout_.token_bytes;
    const uint64_t last = (std::min(end, tokens_end) - sizeof(ShardHeader)) / layout_.token_bytes;
    refuse(begin < tokens_end
               ? fmt::format("bytes {} to {} (tokens {} to {}) are damaged", begin, end - 1, first, last - 1)
               : fmt::format("bytes {} to {} (document index{}) are damaged", begin, end - 1,
                             layout_.has_learned ? " or learned plane" : ""));
  }
  if (begin < tokens_end) check_ids(begin, std::min(end, tokens_end));
}

void TokenShard::check_ids(uint64_t begin, uint64_t end) const {
  const std::span<const std::byte> tokens = bytes(begin, end);
  const auto vocab_size = static_cast<uint64_t>(vocab_.size);
  const size_t at = layout_.token_bytes == 2 ? first_unknown(as<uint16_t>(tokens), vocab_size)
                                             : first_unknown(as<uint32_t>(tokens), vocab_size);
  if (at == tokens.size() / layout_.token_bytes) return;
  refuse(fmt::format("token {} is not below the vocabulary's size, {}",
                     (begin - sizeof(ShardHeader)) / layout_.token_bytes + at, vocab_.size));
}

void TokenShard::read(int64_t first, std::span<int32_t> out) const {
  const uint64_t begin = sizeof(ShardHeader) + static_cast<uint64_t>(first) * layout_.token_bytes;
  const uint64_t end = begin + out.size() * layout_.token_bytes;
  check_blocks(begin, end);
  if (layout_.token_bytes == 2) {
    const auto tokens = as<uint16_t>(bytes(begin, end));
    std::copy(tokens.begin(), tokens.end(), out.begin());
  } else {
    const auto tokens = as<uint32_t>(bytes(begin, end));
    std::copy(tokens.begin(), tokens.end(), out.begin());
  }
  file_.check();
}

void TokenShard::check_learned(int64_t first, int64_t count) const {
  if (count == 0) return;
  const auto word = [](int64_t token) { return static_cast<uint64_t>(token) / 64 * sizeof(uint64_t); };
  check_blocks(layout_.learned_at() + word(first), layout_.learned_at() + word(first + count - 1) + sizeof(uint64_t));
}

void TokenShard::hide_unlearned(int64_t first, std::span<int32_t> ids, int32_t hidden) const {
  if (!layout_.has_learned) return;
  check_learned(first, std::ssize(ids));
  for (size_t i = 0, at = static_cast<size_t>(first); i < ids.size(); ++i, ++at) {
    // Without a branch, because masks change often.
    ids[i] = learned_[at / 64] >> at % 64 & 1 ? ids[i] : hidden;
  }
  file_.check();
}

int64_t TokenShard::count_learned(int64_t first, int64_t count) const {
  if (!layout_.has_learned) return count;
  check_learned(first, count);
  int64_t learned = 0;
  for (auto at = static_cast<size_t>(first), end = at + static_cast<size_t>(count); at < end;) {
    const size_t bit = at % 64, num_bits = std::min(64 - bit, end - at);
    const uint64_t bits = learned_[at / 64] >> bit << (64 - num_bits);
    learned += std::popcount(bits);
    at += num_bits;
  }
  file_.check();
  return learned;
}

void TokenShard::check(int64_t first, int64_t count) const {
  const uint64_t begin = sizeof(ShardHeader) + static_cast<uint64_t>(first) * layout_.token_bytes;
  check_blocks(begin, begin + static_cast<uint64_t>(count) * layout_.token_bytes);
  if (layout_.has_learned) check_learned(first, count);
  file_.check();
}

void TokenShard::verify() const {
  check_blocks(sizeof(ShardHeader), layout_.checksums_at());
  file_.check();
}

}  // namespace gradmill
