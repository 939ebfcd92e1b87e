// SPDX-License-Identifier: Apache-2.0
// Turns GGUF's vocabularies into tokenizer.json: byte-level BPE as it is, and SentencePiece as a BPE over characters
// whose merges follow from the scores.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "files/strict_json.h"
#include "model_files/gguf/gguf_model.h"
#include "model_files/gguf/gguf_names.h"

namespace gradmill {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

enum class TokenType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
constexpr double kLastType = 6;

// JSON must be UTF-8, but strings from a file need not be.
bool is_utf8(std::string_view text) {
  try {
    json(text).dump();
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

// Keys are distinct, so the slow search of an ordered object for duplicates is skipped.
ordered_json sorted_object(const std::vector<std::pair<std::string_view, size_t>>& items) {
  ordered_json::object_t object;
  object.reserve(items.size());
  for (const auto& [key, value] : items) object.Container::emplace_back(std::string(key), ordered_json(value));
  return ordered_json(std::move(object));
}

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

class TokenizerMaker {
 public:
  explicit TokenizerMaker(const GgufFile& file) : file_(file), tokens_(*file.strings("tokenizer.ggml.tokens")) {
    if (tokens_.empty() || tokens_.size() > kMostTokens) throw file_.bad("tokenizer.ggml.tokens is empty or too long");
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!is_utf8(tokens_[id])) throw file_.bad(fmt::format("token {} is not UTF-8", id));
    }
    types_ = file_.array("tokenizer.ggml.token_type");
    if (types_ != nullptr && types_->count != tokens_.size()) {
      throw file_.bad("tokenizer.ggml.token_type is not as long as tokenizer.ggml.tokens");
    }
    for (size_t id = 0; types_ != nullptr && id < tokens_.size(); ++id) {
      const double type = types_->number(id);
      if (!(type >= 0 && type <= kLastType)) throw file_.bad(fmt::format("token {} is of type {}", id, type));
    }
  }

  ordered_json make() const {
    const std::string_view model = file_.text("tokenizer.ggml.model");
    if (model == "gpt2") return make_byte_level();
    if (model == "llama") return make_sentencepiece();
    throw file_.refusal("tokenizer.ggml.model", "gpt2 and llama");
  }

  ordered_json make_config() const {
    ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
    const auto add = [&](const char* name, const char* key) {
      if (const auto id = special(key)) config[name] = std::string(tokens_[*id]);
    };
    add("bos_token", "tokenizer.ggml.bos_token_id");
    add("eos_token", "tokenizer.ggml.eos_token_id");
    add("unk_token", "tokenizer.ggml.unknown_token_id");
    add("pad_token", "tokenizer.ggml.padding_token_id");
    config["add_bos_token"] = adds_bos();
    config["add_eos_token"] = file_.flag("tokenizer.ggml.add_eos_token", false);
    const std::string_view chat = file_.text("tokenizer.chat_template", "");
    if (!chat.empty() && is_utf8(chat)) config["chat_template"] = std::string(chat);
    return config;
  }

 private:
  static constexpr size_t kMostTokens = 4'000'000;
  static constexpr size_t kMostPieceBytes = 512;

  TokenType type(size_t id) const {
    return types_ == nullptr ? TokenType::normal : static_cast<TokenType>(static_cast<int32_t>(types_->number(id)));
  }

  std::optional<size_t> special(const char* key) const {
    if (file_.find(key) == nullptr) return std::nullopt;
    const auto id = static_cast<size_t>(file_.whole(key));
    if (id >= tokens_.size()) throw file_.refusal(key, "an id of the vocabulary");
    return id;
  }

  bool is_added(size_t id) const { return type(id) == TokenType::control || type(id) == TokenType::user_defined; }

  bool adds_bos() const {
    const bool usual =
        file_.text("tokenizer.ggml.model") == "llama" || file_.text("tokenizer.ggml.pre", "") == "llama-bpe";
    return file_.flag("tokenizer.ggml.add_bos_token", usual);
  }

  ordered_json added_tokens() const {
    ordered_json added = ordered_json::array();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!is_added(id)) continue;
      added.push_back({{"id", id},
                       {"content", std::string(tokens_[id])},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", type(id) == TokenType::control}});
    }
    return added;
  }

  // Added tokens are matched before the model sees a text. Those with the highest ids may be left out of the
  // vocabulary: Hugging Face's libraries number added tokens that it lacks from its size upwards, whatever ids are
  // given.
  size_t ordinary_end() const {
    size_t end = tokens_.size();
    while (end > 0 && is_added(end - 1)) --end;
    return end;
  }

  ordered_json vocabulary(size_t end) const {
    std::vector<std::pair<std::string_view, size_t>> sorted;
    for (size_t id = 0; id < end; ++id) sorted.emplace_back(tokens_[id], id);
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i].first == sorted[i - 1].first) {
        throw file_.bad(fmt::format("the token {} occurs twice", quote_for_message(sorted[i].first)));
      }
    }
    return sorted_object(sorted);
  }

  // Puts BOS and EOS around a text.
  ordered_json post_processor() const {
    const auto bos = adds_bos() ? special("tokenizer.ggml.bos_token_id") : std::nullopt;
    const auto eos =
        file_.flag("tokenizer.ggml.add_eos_token", false) ? special("tokenizer.ggml.eos_token_id") : std::nullopt;
    if (!bos && !eos) return nullptr;
    ordered_json single = ordered_json::array(), pair = ordered_json::array(), tokens = ordered_json::object();
    const auto add_special = [&](ordered_json& list, size_t id, int type_id) {
      list.push_back({{"SpecialToken", {{"id", std::string(tokens_[id])}, {"type_id", type_id}}}});
      tokens[std::string(tokens_[id])] = {
          {"id", std::string(tokens_[id])}, {"ids", {id}}, {"tokens", {std::string(tokens_[id])}}};
    };
    const auto add_text = [&](ordered_json& list, const char* name, int type_id) {
      if (bos) add_special(list, *bos, type_id);
      list.push_back({{"Sequence", {{"id", name}, {"type_id", type_id}}}});
      if (eos) add_special(list, *eos, type_id);
    };
    add_text(single, "A", 0);
    add_text(pair, "A", 0);
    add_text(pair, "B", 1);
    return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
  }

  ordered_json document(ordered_json normalizer, ordered_json pre_tokenizer, ordered_json decoder,
                        ordered_json model) const {
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", added_tokens()},
            {"normalizer", std::move(normalizer)},
            {"pre_tokenizer", std::move(pre_tokenizer)},
            {"post_processor", post_processor()},
            {"decoder", std::move(decoder)},
            {"model", std::move(model)}};
  }

  ordered_json make_byte_level() const {
    const GgufPreTokenizer* pre = find_pre_tokenizer(file_.text("tokenizer.ggml.pre", "default"));
    if (pre == nullptr) throw file_.refusal("tokenizer.ggml.pre", pre_tokenizer_names());
    ordered_json merges = ordered_json::array();
    if (const GgufStrings* list = file_.strings("tokenizer.ggml.merges")) {
      for (const std::string_view merge : *list) {
        if (!is_utf8(merge)) throw file_.bad("a merge is not UTF-8");
        merges.push_back(std::string(merge));
      }
    }
    ordered_json model = {{"type", "BPE"},
                          {"unk_token", nullptr},
                          {"fuse_unk", false},
                          {"byte_fallback", false},
                          {"ignore_merges", pre->ignore_merges},
                          {"vocab", vocabulary(ordinary_end())},
                          {"merges", std::move(merges)}};
    const ordered_json decoder = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    return document(pre->nfc ? ordered_json{{"type", "NFC"}} : ordered_json(), ordered_json::parse(pre->json), decoder,
                    std::move(model));
  }

  // Every way to build a token from two others, best score first; ties in the order of ids.
  ordered_json merges_by_score() const {
    const GgufArray* scores = file_.array("tokenizer.ggml.scores");
    if (scores == nullptr || scores->count != tokens_.size())
      throw file_.bad("tokenizer.ggml.scores is missing or of another length");
    std::unordered_map<std::string_view, size_t> ids;
    for (size_t id = 0; id < tokens_.size(); ++id) ids.emplace(tokens_[id], id);
    struct Merge {
      double score;
      size_t whole, left, right;
    };
    std::vector<Merge> merges;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (type(id) != TokenType::normal) continue;
      const std::string_view token = tokens_[id];
      const double score = scores->number(id);
      if (token.size() > kMostPieceBytes) throw file_.bad(fmt::format("token {} has {} bytes", id, token.size()));
      if (!std::isfinite(score)) throw file_.bad(fmt::format("the score of token {} is {}", id, score));
      for (size_t cut = 1; cut < token.size(); ++cut) {
        if (!starts_character(token[cut])) continue;
        const auto left = ids.find(token.substr(0, cut)), right = ids.find(token.substr(cut));
        if (left != ids.end() && right != ids.end()) merges.push_back({score, id, left->second, right->second});
      }
    }
    std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
      if (a.score != b.score) return a.score > b.score;
      return std::tie(a.whole, a.left, a.right) < std::tie(b.whole, b.left, b.right);
    });
    ordered_json list = ordered_json::array();
    for (const Merge& merge : merges) {
      list.push_back({std::string(tokens_[merge.left]), std::string(tokens_[merge.right])});
    }
    return list;
  }

  ordered_json make_sentencepiece() const {
    const bool prefix = file_.flag("tokenizer.ggml.add_space_prefix", true);
    const auto unknown = special("tokenizer.ggml.unknown_token_id");
    const ordered_json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
    ordered_json normalizers = ordered_json::array();
    if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
    normalizers.push_back(replace);
    ordered_json decoders = ordered_json::array();
    decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}});
    decoders.push_back({{"type", "ByteFallback"}});
    decoders.push_back({{"type", "Fuse"}});
    if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    ordered_json model = {{"type", "BPE"},
                          {"unk_token", unknown ? ordered_json(std::string(tokens_[*unknown])) : ordered_json()},
                          {"fuse_unk", true},
                          {"byte_fallback", true},
                          {"ignore_merges", false},
                          {"vocab", vocabulary(tokens_.size())},
                          {"merges", merges_by_score()}};
    return document({{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}, nullptr,
                    {{"type", "Sequence"}, {"decoders", std::move(decoders)}}, std::move(model));
  }

  const GgufFile& file_;
  const GgufStrings& tokens_;
  const GgufArray* types_ = nullptr;
};

}  // namespace

GgufTokenizer gguf_tokenizer(const GgufFile& file) {
  if (file.strings("tokenizer.ggml.tokens") == nullptr) return {};
  const TokenizerMaker maker(file);
  return {maker.make().dump() + "\n", maker.make_config().dump(2) + "\n"};
}

}  // namespace gradmill
