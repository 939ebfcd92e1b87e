// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe.h"

#include <utility>

#include "tokenizer/merge_tokens.h"

namespace gradmill {

Bpe::Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, const BpeOptions& options)
    : vocabulary_(std::move(vocabulary)), merges_(merges), options_(options) {
  for (size_t byte = 0; byte < 256; ++byte) {
    const char letter = static_cast<char>(byte);
    byte_ids_[byte] = vocabulary_.id_of_bytes({&letter, 1}).value_or(-1);
  }
}

void Bpe::encode_word(std::string_view word, std::vector<WordToken>& tokens) const {
  if (options_.ignore_merges) {
    if (const auto whole = vocabulary_.id_of_bytes(word)) {
      tokens.push_back({*whole, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  const size_t begin = tokens.size();
  split_bytes(word, tokens);
  merge_tokens(merges_, tokens, begin);
}

void Bpe::split_bytes(std::string_view word, std::vector<WordToken>& tokens) const {
  bool after_unknown = false;
  uint32_t num_left_out = 0;  // omitted bytes, which count as part of the next token
  for (const char letter : word) {
    const TokenId known = byte_ids_[static_cast<unsigned char>(letter)];
    const TokenId id = known < 0 ? options_.unknown : known;
    const bool fused = known < 0 && after_unknown && options_.fuse_unknown;
    if (id < 0)
      ++num_left_out;
    else if (fused)
      ++tokens.back().num_bytes;
    else
      tokens.push_back({id, 1 + std::exchange(num_left_out, 0)});
    after_unknown = known < 0;
  }
}

}  // namespace gradmill
