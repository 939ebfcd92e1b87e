// SPDX-License-Identifier: Apache-2.0
// TokenShard: a file of token ids in documents, mapped into memory (token_shard_format.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "data/tokens/token_shard_format.h"
#include "files/mapped_file.h"

namespace gradmill {

// Identifies the vocabulary of the ids.
struct VocabId {
  uint64_t hash = 0;
  int64_t size = 0;  // ids are in [0, size)
  bool operator==(const VocabId&) const = default;
};

class TokenShard {
 public:
  // Checks header, trailer, sizes and the document index. Tokens are checked when they are first read. Throws a
  // data_error that names the file and the problem.
  explicit TokenShard(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const VocabId& vocab() const { return vocab_; }
  int64_t num_tokens() const { return static_cast<int64_t>(layout_.num_tokens); }
  int64_t num_documents() const { return static_cast<int64_t>(layout_.num_documents); }
  // One behind the document's last token: where the next one begins. Documents may be empty.
  int64_t document_end(int64_t document) const {
    const uint64_t end = ends_[static_cast<size_t>(document)];
    file_.check();
    return static_cast<int64_t>(end);
  }

  // Tokens [first, first + out.size()), which must exist. Any thread may call it. Throws a data_error that names the
  // damaged bytes and tokens where a checksum or an id is wrong, or the file where it became shorter since it was
  // opened; a block's checksum is computed once.
  void read(int64_t first, std::span<int32_t> out) const;
  // Whether some tokens may be context only, not targets, such as a user's words in a conversation.
  bool has_learned_plane() const { return layout_.has_learned; }
  // Overwrites the ids of tokens that are not learned with `hidden`; `ids` start at token `first`. Throws the errors of
  // read().
  void hide_unlearned(int64_t first, std::span<int32_t> ids, int32_t hidden) const;
  // The number of learned tokens among `count` tokens from `first` on. Throws the errors of read().
  int64_t count_learned(int64_t first, int64_t count) const;
  // Performs the checks of read() for `count` tokens from `first` on, without reading them.
  void check(int64_t first, int64_t count) const;
  // Checks the whole shard.
  void verify() const;

 private:
  std::span<const std::byte> bytes(uint64_t begin, uint64_t end) const {
    return file_.bytes().subspan(begin, end - begin);
  }
  [[noreturn]] void refuse(std::string_view what) const;
  ShardTrailer check_trailer() const;
  void check_ends() const;
  void check_learned(int64_t first, int64_t count) const;
  void check_blocks(uint64_t begin, uint64_t end) const;
  void check_block(uint64_t block) const;
  void check_ids(uint64_t begin, uint64_t end) const;

  std::filesystem::path path_;
  MappedFile file_;
  VocabId vocab_;
  ShardLayout layout_{};
  std::span<const uint64_t> ends_, learned_;
  std::span<const uint32_t> checksums_;
  std::unique_ptr<std::atomic<bool>[]> checked_;  // one per block
};

}  // namespace gradmill
