// SPDX-License-Identifier: Apache-2.0
// Turns tokenizer.json into llama.cpp's keys: byte-level BPE with its merges, and SentencePiece's BPE with scores that
// order tokens as its merges do.
#include "model_files/gguf/gguf_vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/error.h"
#include "model_files/gguf/gguf_names.h"
#include "tokenizer/json_text.h"

namespace gradmill {
namespace {

using nlohmann::json;

enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

Error no_form(std::string_view what) {
  return usage_error(fmt::format("tokenizer.json: GGUF cannot express {}", what), "export as hf instead");
}

const std::string* find_file(const std::vector<ExportFile>& files, std::string_view name) {
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const ExportFile& file) { return file.name == name; });
  return found == files.end() ? nullptr : &found->content;
}

const json& member(const json& object, const char* name) {
  static const json kNull;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : kNull;
}

bool is_byte_token(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
}

class GgufVocabulary {
 public:
  GgufVocabulary(const json& document, int64_t size) : model_(member(document, "model")) {
    if (member(model_, "type") != "BPE" && !member(model_, "type").is_null())
      throw no_form("a tokenizer that is not BPE");
    tokens.resize(static_cast<size_t>(size));
    types.assign(tokens.size(), kUnused);
    const json& vocab = member(model_, "vocab");
    if (!vocab.is_object()) throw no_form("this vocabulary");
    for (const auto& [token, id] : vocab.items()) place(id, token, is_byte_token(token) ? kByte : kNormal);
    const json& added = member(document, "added_tokens");
    for (const json& token : added.is_array() ? added : json::array()) {
      if (!member(token, "content").is_string()) throw no_form("an added token without content");
      place(member(token, "id"), token["content"].get<std::string>(),
            member(token, "special") == true ? kControl : kUserDefined);
    }
    for (size_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id].empty()) tokens[id] = fmt::format("[PAD{}]", id);
    }
    read_merges();
  }

  bool byte_fallback() const { return member(model_, "byte_fallback") == true; }

  // llama.cpp merges the pair whose result has the best score.
  std::vector<float> scores() const {
    std::unordered_map<std::string_view, size_t> ids;
    for (size_t id = 0; id < tokens.size(); ++id) ids.emplace(tokens[id], id);
    std::vector<float> result(tokens.size(), -1e9f);
    std::vector<bool> ranked(tokens.size());
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const auto whole = ids.find(merges[rank].first + merges[rank].second);
      if (whole == ids.end() || ranked[whole->second]) continue;
      ranked[whole->second] = true;
      result[whole->second] = -static_cast<float>(rank + 1);
    }
    return result;
  }

  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::pair<std::string, std::string>> merges;

 private:
  void place(const json& id, const std::string& token, int32_t type) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= tokens.size()) {
      throw data_error(fmt::format("tokenizer.json: the token {} has an id beyond the model's {} rows",
                                   quote_for_message(token), tokens.size()),
                       "use the tokenizer that the model was trained with");
    }
    tokens[id.get<size_t>()] = token;
    types[id.get<size_t>()] = type;
    if (member(model_, "unk_token") == token && byte_fallback()) types[id.get<size_t>()] = kUnknown;
  }

  void read_merges() {
    const json& list = member(model_, "merges");
    for (const json& item : list.is_array() ? list : json::array()) {
      if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
        merges.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
      } else if (item.is_string()) {
        const auto both = item.get<std::string>();
        const size_t space = both.find(' ');
        if (space == std::string::npos) throw no_form("a merge that is not a pair");
        merges.emplace_back(both.substr(0, space), both.substr(space + 1));
      } else {
        throw no_form("a merge that is not a pair");
      }
    }
  }

  const json& model_;
};

void add_byte_level(GgufMetadata& metadata, const json& document, const GgufVocabulary& vocabulary) {
  const GgufPreTokenizer* pre = match_pre_tokenizer(member(document, "pre_tokenizer").dump());
  if (pre == nullptr) throw no_form("this pre_tokenizer; known are " + pre_tokenizer_names());
  metadata.add_text("tokenizer.ggml.model", "gpt2");
  metadata.add_text("tokenizer.ggml.pre", pre->name);
  std::vector<std::string> merges;
  for (const auto& [left, right] : vocabulary.merges) merges.push_back(left + " " + right);
  metadata.add_texts("tokenizer.ggml.merges", merges);
}

// Whether a space is put before a text, by a normalizer that prepends or by a Metaspace.
bool adds_space_prefix(const json& document) {
  const std::string normalizer = member(document, "normalizer").dump(), pre = member(document, "pre_tokenizer").dump();
  const bool metaspace =
      pre.find("Metaspace") != std::string::npos && pre.find(R"("prepend_scheme":"never")") == std::string::npos;
  return normalizer.find(R"("Prepend")") != std::string::npos || metaspace;
}

void add_sentencepiece(GgufMetadata& metadata, const json& document, const GgufVocabulary& vocabulary) {
  if (member(document, "normalizer").dump().find("▁") == std::string::npos &&
      member(document, "pre_tokenizer").dump().find("Metaspace") == std::string::npos) {
    throw no_form("a BPE that is neither byte-level nor SentencePiece's");
  }
  metadata.add_text("tokenizer.ggml.model", "llama");
  metadata.add_text("tokenizer.ggml.pre", "default");
  metadata.add_scores("tokenizer.ggml.scores", vocabulary.scores());
  metadata.add_flag("tokenizer.ggml.add_space_prefix", adds_space_prefix(document));
}

// A token in tokenizer_config.json, given as text or as an object with its content.
std::optional<int64_t> named_token(const json& config, const char* name, const GgufVocabulary& vocabulary) {
  const json& value = member(config, name);
  const json& text = value.is_object() ? member(value, "content") : value;
  if (!text.is_string()) return std::nullopt;
  const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), text.get<std::string>());
  if (found == vocabulary.tokens.end()) return std::nullopt;
  return found - vocabulary.tokens.begin();
}

// Whether the template starts with this token.
bool begins_with(const json& document, const std::string& token) {
  const std::string processor = member(document, "post_processor").dump();
  const std::string first = json({{"SpecialToken", {{"id", token}, {"type_id", 0}}}}).dump();
  return processor.find(R"("single":[)" + first) != std::string::npos;
}

void add_special_tokens(GgufMetadata& metadata, const json& document, const json& tokenizer_config,
                        const HfConfig& config, const GgufVocabulary& vocabulary) {
  const auto add = [&](const char* key, const char* name, std::optional<int64_t> fallback) {
    std::optional<int64_t> id = named_token(tokenizer_config, name, vocabulary);
    if (!id) id = fallback;
    if (id) metadata.add_whole(key, *id);
    return id;
  };
  const auto bos = add("tokenizer.ggml.bos_token_id", "bos_token", config.bos_token);
  add("tokenizer.ggml.eos_token_id", "eos_token",
      config.eos_tokens.empty() ? std::nullopt : std::optional(config.eos_tokens[0]));
  add("tokenizer.ggml.unknown_token_id", "unk_token", std::nullopt);
  add("tokenizer.ggml.padding_token_id", "pad_token", config.pad_token);
  bool add_bos = bos && static_cast<size_t>(*bos) < vocabulary.tokens.size() &&
                 begins_with(document, vocabulary.tokens[static_cast<size_t>(*bos)]);
  if (member(tokenizer_config, "add_bos_token").is_boolean()) add_bos = tokenizer_config["add_bos_token"].get<bool>();
  metadata.add_flag("tokenizer.ggml.add_bos_token", add_bos);
  metadata.add_flag("tokenizer.ggml.add_eos_token", member(tokenizer_config, "add_eos_token") == true);
}

}  // namespace

void add_tokenizer_metadata(GgufMetadata& metadata, const HfConfig& config, const std::vector<ExportFile>& files) {
  const std::string* text = find_file(files, "tokenizer.json");
  if (text == nullptr) {
    throw usage_error("the model has no tokenizer.json, which a GGUF file needs",
                      "put one into its folder: AutoTokenizer.from_pretrained(…).save_pretrained(…) writes it");
  }
  const json document = parse_json_text(*text, "tokenizer.json");
  const std::string* settings = find_file(files, "tokenizer_config.json");
  const json tokenizer_config =
      settings == nullptr ? json::object() : parse_json_text(*settings, "tokenizer_config.json");
  const GgufVocabulary vocabulary(document, config.spec.vocab);
  vocabulary.byte_fallback() ? add_sentencepiece(metadata, document, vocabulary)
                             : add_byte_level(metadata, document, vocabulary);
  metadata.add_texts("tokenizer.ggml.tokens", vocabulary.tokens);
  metadata.add_types("tokenizer.ggml.token_type", vocabulary.types);
  add_special_tokens(metadata, document, tokenizer_config, config, vocabulary);
  if (const std::string* chat = find_file(files, "chat_template.jinja")) {
    metadata.add_text("tokenizer.chat_template", *chat);
  } else if (member(tokenizer_config, "chat_template").is_string()) {
    metadata.add_text("tokenizer.chat_template", tokenizer_config["chat_template"].get<std::string>());
  }
}

}  // namespace gradmill
