// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/token_shard_writer.h"

#include <algorithm>
#include <cassert>

#include "core/crc32c.h"

namespace gradmill {
namespace {

std::filesystem::path fresh_temporary(const std::filesystem::path& path, FileOps& ops) {
  std::filesystem::path name = temporary_beside(path);
  remove_tree(ops, name);
  return name;
}

const VocabId& checked(const VocabId& vocab) {
  if (vocab.size >= 1 && vocab.size <= INT32_MAX) return vocab;
  throw usage_error(fmt::format("the vocabulary's size is {}", vocab.size), "give 1 to 2147483647");
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

TokenShardWriter::TokenShardWriter(const std::filesystem::path& path, const VocabId& vocab, LearnedPlane plane,
                                   FileOps& ops)
    : ops_(ops),
      path_(path),
      temporary_(fresh_temporary(path, ops)),
      vocab_(checked(vocab)),
      file_(ops, temporary_),
      has_learned_(plane == LearnedPlane::present),
      token_bytes_(vocab.size <= 1 << 16 ? 2 : 4) {
  ShardHeader header{.version = has_learned_ ? kShardVersion : 1,
                     .token_bytes = static_cast<uint32_t>(token_bytes_),
                     .vocab_hash = vocab.hash,
                     .vocab_size = static_cast<uint64_t>(vocab.size),
                     .flags = has_learned_ ? kShardLearned : 0};
  header.crc = crc32c(bytes_of(header).first(offsetof(ShardHeader, crc)));
  block_.reserve(kShardBlockBytes);
  try {
    file_.append(bytes_of(header));
  } catch (const FileError&) {  // no destructor will run
    try_remove_tree(ops_, temporary_);
    throw;
  }
}

TokenShardWriter::~TokenShardWriter() {
  if (!finished_) try_remove_tree(ops_, temporary_);
}

void TokenShardWriter::add_tokens(std::span<const int32_t> tokens, std::span<const uint8_t> learned) {
  assert(learned.empty() || (has_learned_ && learned.size() == tokens.size()));
  const auto unknown =
      std::find_if(tokens.begin(), tokens.end(), [&](int32_t id) { return id < 0 || id >= vocab_.size; });
  if (unknown != tokens.end()) {
    throw data_error(fmt::format("{}: token {} of document {} is {}, the vocabulary has {}", path_.string(),
                                 unknown - tokens.begin(), ends_.size(), *unknown, vocab_.size),
                     "tokenise with the vocabulary that the shard is for");
  }
  if (token_bytes_ == 2) {
    append_narrow<uint16_t>(tokens);
  } else {
    append_narrow<uint32_t>(tokens);
  }
  if (has_learned_) append_learned(tokens.size(), learned);
  num_tokens_ += tokens.size();
}

void TokenShardWriter::append_learned(size_t count, std::span<const uint8_t> learned) {
  learned_.resize((num_tokens_ + count + 63) / 64, 0);
  for (size_t i = 0, at = num_tokens_; i < count; ++i, ++at) {
    if (learned.empty() || learned[i] != 0) learned_[at / 64] |= uint64_t{1} << at % 64;
  }
}

template <class T>
void TokenShardWriter::append_narrow(std::span<const int32_t> tokens) {
  std::array<T, 4096> narrow;
  while (!tokens.empty()) {
    const size_t count = std::min(tokens.size(), narrow.size());
    std::transform(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count), narrow.begin(),
                   [](int32_t id) { return static_cast<T>(id); });
    append(std::as_bytes(std::span(narrow).first(count)));
    tokens = tokens.subspan(count);
  }
}

void TokenShardWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kShardBlockBytes - block_.size());
    block_.insert(block_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (block_.size() == kShardBlockBytes) flush_block();
  }
}

void TokenShardWriter::flush_block() {
  if (block_.empty()) return;
  checksums_.push_back(crc32c(block_));
  file_.append(block_);
  block_.clear();
}

void TokenShardWriter::finish() {
  assert(num_tokens_ == (ends_.empty() ? 0 : ends_.back()));
  constexpr std::array<std::byte, 8> kZeros{};
  append(std::span(kZeros).first((8 - num_tokens_ * token_bytes_ % 8) % 8));
  append(std::as_bytes(std::span(ends_)));
  append(std::as_bytes(std::span(learned_)));
  flush_block();
  ShardTrailer trailer{.num_tokens = num_tokens_,
                       .num_documents = ends_.size(),
                       .checksums_crc = crc32c(std::as_bytes(std::span(checksums_)))};
  trailer.crc = crc32c(bytes_of(trailer).first(offsetof(ShardTrailer, crc)));
  file_.append(std::as_bytes(std::span(checksums_)));
  file_.append(bytes_of(trailer));
  file_.finish();
  ops_.rename(temporary_, path_);
  finished_ = true;
  ops_.sync_folder(parent_folder(path_));
}

}  // namespace gradmill
