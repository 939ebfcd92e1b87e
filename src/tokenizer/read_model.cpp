// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "files/strict_json.h"
#include "tokenizer/bpe.h"
#include "tokenizer/char_bpe.h"
#include "tokenizer/component_readers.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_level.h"
#include "tokenizer/word_piece.h"

namespace gradmill {
namespace {

using nlohmann::json;

// Limits the time if tokens are searched for at each position of a text. Real tokens are shorter than 512 bytes.
constexpr size_t kMaxTokenBytes = 4096;
constexpr size_t kMaxBpeTokenBytes = 1 << 20;

// Limits the memory that a few tokens with huge ids can claim.
TokenId read_id(const JsonReader& reader, const json& value, std::string_view token, size_t num_tokens) {
  const uint64_t limit = 4 * num_tokens + (1 << 16);
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= std::min<uint64_t>(limit, 1 << 30)) {
    throw reader.bad(fmt::format("the token {} has no id, or one that is out of range", quote_for_message(token)));
  }
  return static_cast<TokenId>(value.get<uint64_t>());
}

class ModelReader {
 public:
  ModelReader(const JsonReader& reader, const json& model, bool raw_bytes)
      : reader_(reader), model_(model), spelling_(raw_bytes ? Spelling::byte_level : Spelling::plain) {}

  std::unique_ptr<const WordModel> read() const {
    std::string type = reader_.text(model_, "type");
    if (type.empty()) type = guess_type();
    if (type == "BPE") return read_bpe();
    if (type == "WordPiece") return read_word_piece();
    if (type == "Unigram") return read_unigram();
    if (type == "WordLevel") {
      Vocabulary vocabulary = read_vocab(kMaxTokenBytes);
      const TokenId unknown = read_unknown(vocabulary);
      return std::make_unique<WordLevel>(std::move(vocabulary), unknown);
    }
    throw reader_.unknown(fmt::format("the model {} is not known", quote_for_message(type)));
  }

 private:
  // Old files have no type.
  std::string guess_type() const {
    if (!JsonReader::member(model_, "merges").is_null()) return "BPE";
    if (JsonReader::member(model_, "vocab").is_array()) return "Unigram";
    return JsonReader::member(model_, "max_input_chars_per_word").is_null() ? "WordLevel" : "WordPiece";
  }

  Vocabulary read_vocab(size_t max_token_bytes) const {
    const json& vocab = reader_.object(model_, "vocab");
    if (vocab.empty()) throw reader_.bad("the vocabulary is empty");
    TokenId largest = 0;
    for (const auto& [token, id] : vocab.items())
      largest = std::max(largest, read_id(reader_, id, token, vocab.size()));
    Vocabulary vocabulary(largest, spelling_);
    for (const auto& [token, id] : vocab.items()) {
      if (token.size() > max_token_bytes) throw too_long(token);
      if (!vocabulary.add(id.get<TokenId>(), token)) {
        throw reader_.bad(fmt::format("id {} has two tokens; one is {}", id.get<TokenId>(), quote_for_message(token)));
      }
    }
    return vocabulary;
  }

  Error too_long(std::string_view token) const {
    return reader_.bad(fmt::format("the token {} has {} bytes", quote_for_message(token), token.size()));
  }

  TokenId read_unknown(const Vocabulary& vocabulary) const {
    const std::string token = reader_.text(model_, "unk_token");
    if (token.empty()) return -1;
    const auto id = vocabulary.id(token);
    if (!id) throw reader_.bad(fmt::format("the unknown token {} is not in the vocabulary", quote_for_message(token)));
    return *id;
  }

  std::unique_ptr<const WordModel> read_bpe() const {
    const json& dropout = JsonReader::member(model_, "dropout");
    if (!dropout.is_null() && dropout != 0) throw reader_.unknown("the model has a 'dropout'");
    CharBpeOptions options;
    options.prefix = reader_.short_text(model_, "continuing_subword_prefix");
    options.suffix = reader_.short_text(model_, "end_of_word_suffix");
    options.byte_fallback = reader_.flag(model_, "byte_fallback");
    options.ignore_merges = reader_.flag(model_, "ignore_merges");
    options.fuse_unknown = reader_.flag(model_, "fuse_unk");
    Vocabulary vocabulary = read_vocab(kMaxBpeTokenBytes);
    const std::vector<Merge> merges = read_merges(vocabulary, options.prefix);
    options.unknown = read_unknown(vocabulary);
    if (spelling_ == Spelling::plain) {
      return std::make_unique<CharBpe>(std::move(vocabulary), merges, std::move(options));
    }
    return std::make_unique<Bpe>(std::move(vocabulary), merges,
                                 BpeOptions{options.ignore_merges, options.unknown, options.fuse_unknown});
  }

  std::vector<Merge> read_merges(const Vocabulary& vocabulary, const std::string& prefix) const {
    std::vector<Merge> merges;
    const json& list = reader_.array(model_, "merges");
    merges.reserve(list.size());
    for (const json& item : list) {
      const auto [left, right] = read_pair(item, merges.size());
      const auto part = [&](const std::string& token) {
        const auto id = vocabulary.id(token);
        if (!id) {
          throw reader_.bad(
              fmt::format("merge {}: {} is not in the vocabulary", merges.size(), quote_for_message(token)));
        }
        return *id;
      };
      const TokenId left_id = part(left), right_id = part(right);
      if (right.size() <= prefix.size()) throw not_a_pair(merges.size());
      merges.push_back(
          {left_id, right_id, part(left + right.substr(prefix.size())), static_cast<uint32_t>(merges.size())});
    }
    return merges;
  }

  Error not_a_pair(size_t index) const { return reader_.bad(fmt::format("merge {} is not a pair of tokens", index)); }

  // Reads "a b" or ["a", "b"]. An empty part is refused: it would merge with the other part again and again.
  std::pair<std::string, std::string> read_pair(const json& item, size_t index) const {
    std::pair<std::string, std::string> pair;
    if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
      pair = {item[0].get<std::string>(), item[1].get<std::string>()};
    } else if (item.is_string()) {
      const std::string both = item.get<std::string>();
      const size_t space = both.find(' ');
      if (space != std::string::npos && both.find(' ', space + 1) == std::string::npos) {
        pair = {both.substr(0, space), both.substr(space + 1)};
      }
    }
    if (pair.first.empty() || pair.second.empty()) throw not_a_pair(index);
    return pair;
  }

  std::unique_ptr<const WordModel> read_word_piece() const {
    WordPieceOptions options;
    if (!JsonReader::member(model_, "continuing_subword_prefix").is_null()) {
      options.prefix = reader_.short_text(model_, "continuing_subword_prefix");
    }
    options.max_chars = reader_.number(model_, "max_input_chars_per_word", 100, UINT64_MAX);
    Vocabulary vocabulary = read_vocab(kMaxTokenBytes);
    options.unknown = read_unknown(vocabulary);
    return std::make_unique<WordPiece>(std::move(vocabulary), std::move(options));
  }

  std::unique_ptr<const WordModel> read_unigram() const {
    const json& vocab = reader_.array(model_, "vocab");
    if (vocab.empty()) throw reader_.bad("the vocabulary is empty");
    Vocabulary vocabulary(static_cast<TokenId>(vocab.size() - 1), Spelling::plain);
    std::vector<double> scores;
    for (const json& item : vocab) {
      const auto id = static_cast<TokenId>(scores.size());
      if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number()) {
        throw reader_.bad(fmt::format("entry {} of the vocabulary is not a token and its score", id));
      }
      const auto& token = item[0].get_ref<const std::string&>();
      if (token.size() > kMaxTokenBytes) throw too_long(token);
      if (!vocabulary.add(id, token))
        throw reader_.bad(fmt::format("the token {} appears twice", quote_for_message(token)));
      scores.push_back(item[1].get<double>());
    }
    UnigramOptions options;
    options.byte_fallback = reader_.flag(model_, "byte_fallback");
    if (!JsonReader::member(model_, "unk_id").is_null()) {
      options.unknown = static_cast<TokenId>(reader_.number(model_, "unk_id", 0, vocab.size() - 1));
    }
    return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), options);
  }

  const JsonReader& reader_;
  const json& model_;
  Spelling spelling_;
};

}  // namespace

std::unique_ptr<const WordModel> read_model(const JsonReader& reader, const json& model, bool raw_bytes) {
  return ModelReader(reader, model, raw_bytes).read();
}

std::vector<AddedToken> read_added_tokens(const JsonReader& reader, const json& list, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) throw reader.bad("'added_tokens' is not a list");
  std::set<TokenId> ids;
  std::set<std::string> contents;
  for (const json& item : list) {
    if (!item.is_object()) throw reader.bad("an added token is not an object");
    AddedToken token{.content = reader.text(item, "content"),
                     .special = reader.flag(item, "special"),
                     .single_word = reader.flag(item, "single_word"),
                     .lstrip = reader.flag(item, "lstrip"),
                     .rstrip = reader.flag(item, "rstrip"),
                     .normalized = reader.flag(item, "normalized")};
    if (token.content.empty()) throw reader.bad("an added token has no content");
    if (token.content.size() > kMaxTokenBytes) {
      throw reader.bad(
          fmt::format("the added token {} has {} bytes", quote_for_message(token.content), token.content.size()));
    }
    token.id = read_id(reader, JsonReader::member(item, "id"), token.content,
                       static_cast<size_t>(vocabulary.size()) + list.size());
    const auto known = vocabulary.id(token.content);
    if ((known && *known != token.id) || (!known && vocabulary.has(token.id)) || !ids.insert(token.id).second ||
        !contents.insert(token.content).second) {
      throw reader.bad(fmt::format("the added token {} and its id {} do not belong to each other alone",
                                   quote_for_message(token.content), token.id));
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace gradmill
