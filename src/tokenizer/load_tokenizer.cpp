// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/load_tokenizer.h"

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "tokenizer/bert_vocab.h"
#include "tokenizer/json_text.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer_file.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// In search order.
constexpr const char* kNames[] = {"tokenizer.json", "tokenizer.model", "spm.model", "spiece.model", "vocab.txt"};

// Whether a vocab.txt expects lower-case text: the tokenizer_config.json next to it says so. BERT's first models did.
bool wants_lowercase(const fs::path& vocab) {
  const fs::path path = vocab.parent_path() / "tokenizer_config.json";
  if (!fs::is_regular_file(path)) return true;
  const json config = parse_json_text(read_tokenizer_bytes(path), path.string());
  if (!config.is_object()) return true;
  const auto found = config.find("do_lower_case");
  return found == config.end() || !found->is_boolean() || found->get<bool>();
}

std::shared_ptr<const Tokenizer> load_file(const fs::path& path) {
  const std::string extension = path.extension().string();
  const std::string where = path.string();
  if (extension == ".json") return parse_tokenizer_json(read_tokenizer_bytes(path), where);
  if (extension == ".model") return make_sentencepiece(read_tokenizer_bytes(path), where);
  if (extension == ".txt") {
    return make_bert_tokenizer(read_tokenizer_bytes(path), where, {.lowercase = wants_lowercase(path)});
  }
  throw data_error(fmt::format("'{}' is not a tokenizer: its name must end in .json, .model or .txt", where),
                   "name a tokenizer.json, a SentencePiece .model or a vocab.txt");
}

}  // namespace

std::shared_ptr<const Tokenizer> load_tokenizer(const fs::path& path) {
  if (!fs::is_directory(path)) return load_file(path);
  for (const char* name : kNames) {
    if (fs::exists(path / name)) return load_file(path / name);
  }
  throw data_error(fmt::format("the folder '{}' contains no tokenizer", path.string()),
                   "it needs a tokenizer.json, a tokenizer.model, a spm.model or a vocab.txt");
}

}  // namespace gradmill
