// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe_file.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>

#include "core/error.h"
#include "tokenizer/json_text.h"

namespace gradmill {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{1} << 30;

class BpeFileReader {
 public:
  BpeFileReader(json document, std::string_view where) : document_(std::move(document)), where_(where) {}

  std::unique_ptr<BpeTokenizer> read() const {
    if (!document_.is_object()) throw bad("the file is not a JSON object");
    const json& model = object(document_, "model");
    check_model(model);
    Vocabulary vocabulary = read_vocab(object(model, "vocab"));
    const std::vector<Merge> merges = read_merges(model, vocabulary);
    BpeOptions options;
    options.ignore_merges = flag(model, "ignore_merges");
    options.fuse_unknown = flag(model, "fuse_unk");
    options.unknown = read_unknown(model, vocabulary);
    BpeSettings settings;
    settings.added_tokens = read_added(vocabulary);
    settings.nfc = read_normalizer(member(document_, "normalizer"));
    read_pre_tokenizer(member(document_, "pre_tokenizer"), settings.steps);
    check_decoder(member(document_, "decoder"));
    return std::make_unique<BpeTokenizer>(Bpe(std::move(vocabulary), merges, options), std::move(settings));
  }

 private:
  Error bad(std::string_view what) const {
    return data_error(fmt::format("{}: {}", where_, what), "the file is damaged; fetch or make it again");
  }
  Error unknown(std::string_view what) const {
    return data_error(fmt::format("{}: {}", where_, what),
                      "only byte-level BPE with the patterns of GPT-2, Llama 3 and Qwen 2 can be read");
  }

  // Null where there is none, as the format has it.
  static const json& member(const json& object, const char* name) {
    static const json kNull;
    const auto found = object.find(name);
    return found == object.end() ? kNull : *found;
  }
  const json& object(const json& parent, const char* name) const {
    const json& value = member(parent, name);
    if (!value.is_object()) throw bad(fmt::format("'{}' is missing or not an object", name));
    return value;
  }
  const json& array(const json& parent, const char* name) const {
    const json& value = member(parent, name);
    if (!value.is_array()) throw bad(fmt::format("'{}' is missing or not a list", name));
    return value;
  }
  bool flag(const json& parent, const char* name, bool fallback = false) const {
    const json& value = member(parent, name);
    if (value.is_null()) return fallback;
    if (!value.is_boolean()) throw bad(fmt::format("'{}' is neither true nor false", name));
    return value.get<bool>();
  }
  std::string text(const json& parent, const char* name) const {
    const json& value = member(parent, name);
    if (value.is_null()) return {};
    if (!value.is_string()) throw bad(fmt::format("'{}' is not a string", name));
    return value.get<std::string>();
  }
  std::string type_of(const json& component, const char* what) const {
    if (!component.is_object()) throw bad(fmt::format("the {} is not an object", what));
    return text(component, "type");
  }

  void check_model(const json& model) const {
    // GPT-2's own file names no type.
    const std::string type = text(model, "type");
    if (!type.empty() && type != "BPE") throw unknown(fmt::format("the model is {}, not BPE", quote_token(type)));
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!text(model, name).empty()) throw unknown(fmt::format("the model has a '{}'", name));
    }
    if (flag(model, "byte_fallback")) throw unknown("the model has 'byte_fallback'");
    const json& dropout = member(model, "dropout");
    if (!dropout.is_null() && dropout != 0) throw unknown("the model has a 'dropout'");
  }

  // Bounds the memory that a few tokens with huge ids can ask for.
  TokenId read_id(const json& value, std::string_view token, size_t num_tokens) const {
    const uint64_t limit = 4 * num_tokens + (1 << 16);
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= std::min<uint64_t>(limit, 1 << 30)) {
      throw bad(fmt::format("the token {} has no id, or one that is out of range", quote_token(token)));
    }
    return static_cast<TokenId>(value.get<uint64_t>());
  }

  Vocabulary read_vocab(const json& vocab) const {
    if (vocab.empty()) throw bad("the vocabulary is empty");
    TokenId largest = 0;
    for (const auto& [token, id] : vocab.items()) largest = std::max(largest, read_id(id, token, vocab.size()));
    Vocabulary vocabulary(largest);
    for (const auto& [token, id] : vocab.items()) {
      if (!vocabulary.add(id.get<TokenId>(), token)) {
        throw bad(fmt::format("id {} has two tokens; one is {}", id.get<TokenId>(), quote_token(token)));
      }
    }
    return vocabulary;
  }

  std::vector<Merge> read_merges(const json& model, const Vocabulary& vocabulary) const {
    std::vector<Merge> merges;
    for (const json& item : array(model, "merges")) {
      const auto [left, right] = read_pair(item, merges.size());
      const auto part = [&](const std::string& token) {
        const auto id = vocabulary.id(token);
        if (!id) throw bad(fmt::format("merge {}: {} is not in the vocabulary", merges.size(), quote_token(token)));
        return *id;
      };
      const TokenId left_id = part(left), right_id = part(right);
      merges.push_back({left_id, right_id, part(left + right)});
    }
    return merges;
  }

  // "a b" or ["a", "b"]. An empty part would merge into its other part again and again.
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
    if (pair.first.empty() || pair.second.empty()) throw bad(fmt::format("merge {} is not a pair of tokens", index));
    return pair;
  }

  TokenId read_unknown(const json& model, const Vocabulary& vocabulary) const {
    const std::string token = text(model, "unk_token");
    if (token.empty()) return -1;
    const auto id = vocabulary.id(token);
    if (!id) throw bad(fmt::format("the unknown token {} is not in the vocabulary", quote_token(token)));
    return *id;
  }

  std::vector<AddedToken> read_added(const Vocabulary& vocabulary) const {
    std::vector<AddedToken> tokens;
    if (member(document_, "added_tokens").is_null()) return tokens;
    const json& list = array(document_, "added_tokens");
    std::set<TokenId> ids;
    std::set<std::string> contents;
    for (const json& item : list) {
      if (!item.is_object()) throw bad("an added token is not an object");
      AddedToken token{.content = text(item, "content"),
                       .special = flag(item, "special"),
                       .single_word = flag(item, "single_word"),
                       .lstrip = flag(item, "lstrip"),
                       .rstrip = flag(item, "rstrip"),
                       .normalized = flag(item, "normalized")};
      if (token.content.empty()) throw bad("an added token has no content");
      token.id = read_id(member(item, "id"), token.content, static_cast<size_t>(vocabulary.size()) + list.size());
      const auto known = vocabulary.id(token.content);
      if ((known && *known != token.id) || (!known && vocabulary.has(token.id)) || !ids.insert(token.id).second ||
          !contents.insert(token.content).second) {
        throw bad(fmt::format("the added token {} and its id {} do not belong to each other alone",
                              quote_token(token.content), token.id));
      }
      tokens.push_back(std::move(token));
    }
    return tokens;
  }

  bool read_normalizer(const json& normalizer) const {
    if (normalizer.is_null()) return false;
    const std::string type = type_of(normalizer, "normalizer");
    if (type == "NFC") return true;
    if (type != "Sequence") throw unknown(fmt::format("the normalizer {} is not known", quote_token(type)));
    bool nfc = false;
    for (const json& part : array(normalizer, "normalizers")) nfc |= read_normalizer(part);
    return nfc;
  }

  void read_pre_tokenizer(const json& pre, std::vector<PreTokenizeStep>& steps) const {
    std::vector<const json*> parts;
    flatten(pre, "pre_tokenizer", "pretokenizers", parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string type = type_of(*parts[i], "pre_tokenizer");
      // What came behind it would see the spelling of bytes instead of text.
      const bool last = i + 1 == parts.size();
      if (last != (type == "ByteLevel")) throw unknown("the pre_tokenizer does not end with its only ByteLevel");
      steps.push_back(read_step(*parts[i], type));
    }
    if (parts.empty()) throw unknown("there is no pre_tokenizer, so this is not byte-level BPE");
  }

  PreTokenizeStep read_step(const json& part, const std::string& type) const {
    if (type == "ByteLevel") {
      PreTokenizeStep step{.prefix_space = flag(part, "add_prefix_space", true)};
      if (flag(part, "use_regex", true)) step.split = SplitKind::gpt2;
      return step;
    }
    if (type == "Digits") {
      return {.split = flag(part, "individual_digits") ? SplitKind::digits : SplitKind::digit_runs};
    }
    if (type != "Split") throw unknown(fmt::format("the pre_tokenizer {} is not known", quote_token(type)));
    const std::string pattern = text(object(part, "pattern"), "Regex");
    const auto kind = split_kind_of_pattern(pattern);
    if (!kind) throw unknown(fmt::format("the split pattern {} is not known", quote_token(pattern)));
    // The patterns leave no gaps, so keeping the matches and isolating them is the same.
    const std::string behavior = text(part, "behavior");
    const bool inverted = flag(part, "invert");
    if (behavior != "Isolated" && !(behavior == "Removed" && inverted)) {
      throw unknown(fmt::format("the split behavior {} is not known", quote_token(behavior)));
    }
    return {.split = *kind};
  }

  // The parts of nested Sequences in order. The parser bounded the depth.
  void flatten(const json& component, const char* what, const char* list, std::vector<const json*>& parts) const {
    if (component.is_null()) return;
    if (type_of(component, what) != "Sequence") return parts.push_back(&component);
    for (const json& part : array(component, list)) flatten(part, what, list, parts);
  }

  void check_decoder(const json& decoder) const {
    std::vector<const json*> parts;
    flatten(decoder, "decoder", "decoders", parts);
    if (parts.size() != 1 || type_of(*parts[0], "decoder") != "ByteLevel")
      throw unknown("the decoder is not ByteLevel");
  }

  json document_;
  std::string_view where_;
};

std::string read_text(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    throw data_error(fmt::format("cannot read '{}': {}", path.string(), error.message()), "check the path");
  }
  if (size > kMaxFileBytes) {
    throw data_error(fmt::format("'{}' has {} bytes, too many for a tokenizer.json", path.string(), size),
                     "check the path");
  }
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    throw data_error(fmt::format("cannot read '{}'", path.string()), "check its permissions and the disk");
  }
  return text;
}

}  // namespace

std::unique_ptr<BpeTokenizer> parse_bpe_file(std::string_view text, std::string_view where) {
  return BpeFileReader(parse_json_text(text, where), where).read();
}

std::unique_ptr<BpeTokenizer> read_bpe_file(const std::filesystem::path& path) {
  return parse_bpe_file(read_text(path), path.string());
}

}  // namespace gradmill
