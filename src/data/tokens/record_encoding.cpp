// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/record_encoding.h"

#include <utility>

#include "core/error.h"
#include "files/sha256.h"

namespace gradmill {

RecordEncoding text_encoding(std::shared_ptr<const Tokenizer> tokenizer, const std::string& tokenizer_hash,
                             const TextEncodingOptions& options) {
  if (options.eos < -1 || options.eos >= tokenizer->vocab_size()) {
    throw usage_error(fmt::format("the end of a document is token {}", options.eos),
                      fmt::format("give an id below {}, or -1 for none", tokenizer->vocab_size()));
  }
  RecordEncoding encoding;
  encoding.fields = {{options.column}};
  encoding.vocab = vocab_id(*tokenizer);
  encoding.fingerprint =
      fmt::format("{} {} {} {}", options.whole ? "whole" : "text", tokenizer_hash, options.column, options.eos);
  encoding.encode = [tokenizer = std::move(tokenizer), options](const Record& record, TokenDocument& document) {
    document.learned.clear();
    document.ids = tokenizer->encode(record.find(options.column)->value).ids;
    if (options.whole && !document.ids.empty()) {
      document.ids = tokenizer->sequence_template().build(document.ids).ids;
      document.ids.push_back(document.ids.back());
      return;
    }
    const bool ends = !record.continues && !document.ids.empty();
    if (ends && options.eos >= 0) document.ids.push_back(static_cast<TokenId>(options.eos));
  };
  return encoding;
}

VocabId vocab_id(const Tokenizer& tokenizer) {
  Sha256 hash;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::optional<std::string> token = tokenizer.token(id);
    hash.add(token ? fmt::format("{} {}\n", token->size(), *token) : "-\n");
  }
  return {std::stoull(hash.hex().substr(0, 16), nullptr, 16), tokenizer.vocab_size()};
}

}  // namespace gradmill
