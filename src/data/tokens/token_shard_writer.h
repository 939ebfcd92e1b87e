// SPDX-License-Identifier: Apache-2.0
// TokenShardWriter: writes documents to a new token shard.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "data/tokens/token_shard.h"
#include "files/output_file.h"

namespace gradmill {

// The shard appears under its name when finish() returns. Until then, and after any failure, an older file of that name
// is unchanged. In memory it keeps one block of tokens, eight bytes per document and, with a learned plane, one bit per
// token. Throws FileError if the disk fails.
enum class LearnedPlane : uint8_t { absent, present };

class TokenShardWriter {
 public:
  // The folder must exist. Ids take two bytes if the vocabulary allows it, otherwise four. Throws a usage_error for a
  // vocabulary that is empty or has more than 2^31 - 1 entries.
  TokenShardWriter(const std::filesystem::path& path, const VocabId& vocab, FileOps& ops = real_file_ops())
      : TokenShardWriter(path, vocab, LearnedPlane::absent, ops) {}
  TokenShardWriter(const std::filesystem::path& path, const VocabId& vocab, LearnedPlane plane,
                   FileOps& ops = real_file_ops());
  TokenShardWriter(const TokenShardWriter&) = delete;
  TokenShardWriter& operator=(const TokenShardWriter&) = delete;
  ~TokenShardWriter();

  // `learned` has one value per token, non-zero for targets; empty: all are targets. Without a learned plane it must be
  // empty. Throws a data_error for an id outside the vocabulary and then adds nothing.
  void add_document(std::span<const int32_t> tokens, std::span<const uint8_t> learned = {}) {
    add_tokens(tokens, learned);
    end_document();
  }
  // Adds a document in parts.
  void add_tokens(std::span<const int32_t> tokens, std::span<const uint8_t> learned = {});
  void end_document() { ends_.push_back(num_tokens_); }
  int64_t num_tokens() const { return static_cast<int64_t>(num_tokens_); }
  int64_t num_documents() const { return static_cast<int64_t>(ends_.size()); }
  // Syncs the shard to disk under its name. Nothing may follow, and no document may be open.
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
  std::vector<std::byte> block_;  // not written yet; less than a block
  std::vector<uint64_t> ends_;
  bool has_learned_;
  std::vector<uint64_t> learned_;  // one bit per token
  std::vector<uint32_t> checksums_;
  uint64_t token_bytes_, num_tokens_ = 0;
  bool finished_ = false;
};

}  // namespace gradmill
