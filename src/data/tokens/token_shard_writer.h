// SPDX-License-Identifier: Apache-2.0
// TokenShardWriter: documents into a new token shard.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "data/tokens/token_shard.h"
#include "files/output_file.h"

namespace gradmill {

// The shard is under its name once finish() returns; until then, and after any failure, whatever was there before is.
// Holds one block of tokens, eight bytes a document and, with a learned plane, a bit a token in memory. Throws
// FileError where the disk fails.
enum class LearnedPlane : uint8_t { absent, present };

class TokenShardWriter {
 public:
  // The folder must exist. Ids take two bytes where the vocabulary allows it, else four. Throws a usage_error for a
  // vocabulary that is empty or has more than 2^31 - 1 entries.
  TokenShardWriter(const std::filesystem::path& path, const VocabId& vocab, FileOps& ops = real_file_ops())
      : TokenShardWriter(path, vocab, LearnedPlane::absent, ops) {}
  TokenShardWriter(const std::filesystem::path& path, const VocabId& vocab, LearnedPlane plane,
                   FileOps& ops = real_file_ops());
  TokenShardWriter(const TokenShardWriter&) = delete;
  TokenShardWriter& operator=(const TokenShardWriter&) = delete;
  ~TokenShardWriter();

  // `learned` has one value a token, not zero for those that are targets; empty: all are. Without a plane it must be
  // empty. Throws a data_error for an id outside the vocabulary; nothing is added then.
  void add_document(std::span<const int32_t> tokens, std::span<const uint8_t> learned = {}) {
    add_tokens(tokens, learned);
    end_document();
  }
  // A document in parts.
  void add_tokens(std::span<const int32_t> tokens, std::span<const uint8_t> learned = {});
  void end_document() { ends_.push_back(num_tokens_); }
  int64_t num_tokens() const { return static_cast<int64_t>(num_tokens_); }
  int64_t num_documents() const { return static_cast<int64_t>(ends_.size()); }
  // Everything is on the disk, under its name. Nothing may follow, and no document may be open.
  void finish();

 private:
  template <class T>
  void append_narrow(std::span<const int32_t> tokens);
  void append_learned(size_t count, std::span<const uint8_t> learned);
  void append(std::span<const std::byte> bytes);
  void flush_block();

  FileOps& ops_;
  std::filesystem::path path_, temporary_;
  VocabId vocab_;
  OutputFile file_;
  std::vector<std::byte> block_;  // not yet written: less than a block
  std::vector<uint64_t> ends_;
  bool has_learned_;
  std::vector<uint64_t> learned_;  // bits
  std::vector<uint32_t> checksums_;
  uint64_t token_bytes_, num_tokens_ = 0;
  bool finished_ = false;
};

}  // namespace gradmill
