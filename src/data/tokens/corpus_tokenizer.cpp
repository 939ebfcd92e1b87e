// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/corpus_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "files/file_io.h"
#include "files/sha256.h"
#include "files/strict_json.h"
#include "tokenizer/load_tokenizer.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostConfigBytes = int64_t{1} << 26;

// Hashes the files that a tokenizer's ids may depend on, in the order of their names.
std::string hash_of(const fs::path& path) {
  Sha256 hash;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    hash.add(read_bytes(path, kWholeFile));
    return hash.hex();
  }
  for (const char* name : {"added_tokens.json", "merges.txt", "special_tokens_map.json", "spiece.model", "spm.model",
                           "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt"}) {
    if (!fs::is_regular_file(path / name, ignored)) continue;
    const std::string bytes = read_bytes(path / name, kWholeFile);
    hash.add(fmt::format("{} {}\n", name, bytes.size()));
    hash.add(bytes);
  }
  return hash.hex();
}

// The eos_token of a tokenizer_config.json, which is a text or an object with its content; empty if there is none.
std::string configured_eos(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  const nlohmann::json json =
      parse_strict_json(read_whole(path, kMostConfigBytes, "get the file again"), path.string());
  if (!json.is_object() || !json.contains("eos_token")) return "";
  const nlohmann::json& eos = json["eos_token"];
  if (eos.is_string()) return eos;
  if (eos.is_object() && eos.contains("content") && eos["content"].is_string()) return eos["content"];
  return "";
}

std::optional<TokenId> find_eos(const Tokenizer& tokenizer, const fs::path& path) {
  std::error_code ignored;
  const std::string configured = configured_eos(fs::is_directory(path, ignored) ? path : path.parent_path());
  if (!configured.empty()) return tokenizer.id(configured);
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>"}) {
    if (const std::optional<TokenId> id = tokenizer.id(name)) return id;
  }
  return std::nullopt;
}

}  // namespace

RecordEncoding CorpusTokenizer::text(const std::string& column, const std::string& eos_name) const {
  TextEncodingOptions options{.column = column};
  if (eos_name == "auto") {
    if (eos) options.eos = *eos;
  } else if (eos_name != "none") {
    const std::optional<TokenId> id = tokenizer->id(eos_name);
    if (!id)
      throw usage_error(fmt::format("the tokenizer has no token '{}'", eos_name), "use another token, auto or none");
    options.eos = *id;
  }
  return text_encoding(tokenizer, hash, options);
}

RecordEncoding CorpusTokenizer::whole_text(const std::string& column) const {
  return text_encoding(tokenizer, hash, {.column = column, .whole = true});
}

CorpusTokenizer open_corpus_tokenizer(const fs::path& path) {
  CorpusTokenizer result;
  result.tokenizer = load_tokenizer(path);
  result.hash = hash_of(path);
  result.eos = find_eos(*result.tokenizer, path);
  return result;
}

}  // namespace gradmill
