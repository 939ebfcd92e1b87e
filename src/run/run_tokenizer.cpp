// SPDX-License-Identifier: Apache-2.0
#include "run/run_tokenizer.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/characters/char_vocab.h"
#include "files/file_io.h"
#include "files/sha256.h"
#include "files/output_file.h"
#include "model_files/gguf/gguf_model.h"
#include "tokenizer/plain_tokenizers.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

// Files that define a tokenizer.
constexpr std::array kSources = {"tokenizer.json", "tokenizer.model", "spm.model", "spiece.model", "vocab.txt"};
// Files that may accompany it.
constexpr std::array kCompanions = {
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
    "chat_template.jinja"};

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Files are kept in memory for every checkpoint.
std::string read_file(const fs::path& path) { return read_whole(path, int64_t{1} << 30, "use another tokenizer"); }

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

fs::path folder_of(const fs::path& path) {
  if (is_folder(path)) return path;
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The name under which load_tokenizer finds a single file in a folder.
std::string stored_name(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".model" ? "tokenizer.model" : ending == ".txt" ? "vocab.txt" : "tokenizer.json";
}

std::vector<CheckpointText> read_files(const fs::path& path) {
  std::vector<CheckpointText> files;
  const bool whole = is_folder(path);
  const fs::path folder = folder_of(path);
  const auto add_present = [&](const auto& names) {
    for (const char* name : names) {
      if (is_file(folder / name)) files.push_back({name, read_file(folder / name)});
    }
  };
  if (whole) {
    add_present(kSources);
  } else {
    files.push_back({stored_name(path), read_file(path)});
  }
  add_present(kCompanions);
  return files;
}

std::string hash_of(const std::vector<CheckpointText>& files) {
  Sha256 hash;
  for (const CheckpointText& file : files) {
    hash.add(fmt::format("{} {}\n", file.name, file.content.size()));
    hash.add(file.content);
  }
  return hash.hex();
}

// The byte tokenizer for other libraries: a byte-level BPE without merges.
std::vector<CheckpointText> byte_files(const Tokenizer& bytes) {
  const nlohmann::ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  nlohmann::ordered_json vocab;
  for (TokenId id = 0; id < bytes.vocab_size(); ++id) vocab[bytes.token(id).value()] = id;
  const nlohmann::ordered_json json = {
      {"version", "1.0"},
      {"added_tokens", nlohmann::ordered_json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::ordered_json::array()}}}};
  const nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                         {"clean_up_tokenization_spaces", false}};
  return {{"tokenizer.json", json.dump(2) + "\n"}, {"tokenizer_config.json", config.dump(2) + "\n"}};
}

// Writes a GGUF file's tokenizer into a temporary folder, which is removed with `keeper`.
fs::path unpack_gguf(const fs::path& path, std::shared_ptr<const void>& keeper) {
  const GgufModel model(path);
  const GgufTokenizer tokenizer = gguf_tokenizer(model.file());
  model.check();
  if (tokenizer.json.empty()) {
    throw data_error(fmt::format("'{}' has no tokenizer", path.string()), "name one with data.tokenizer");
  }
  std::string folder = (fs::temp_directory_path() / "gradmill-tokenizer-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    throw data_error(fmt::format("cannot create a folder in '{}'", fs::temp_directory_path().string()),
                     "set TMPDIR to a writable folder");
  }
  keeper = std::shared_ptr<const void>(nullptr, [folder](const void*) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  });
  replace_file(fs::path(folder) / "tokenizer.json", tokenizer.json);
  replace_file(fs::path(folder) / "tokenizer_config.json", tokenizer.config_json);
  return folder;
}

}  // namespace

RunTokenizer char_run_tokenizer(std::string_view text) {
  RunTokenizer result;
  result.characters = CharVocab::from_text(text).characters();
  result.tokenizer = std::make_shared<CharTokenizer>(result.characters);
  return result;
}

RunTokenizer open_run_tokenizer(const std::string& name) {
  RunTokenizer result;
  if (name == "byte") {
    result.tokenizer = std::make_shared<ByteTokenizer>();
    result.files = byte_files(*result.tokenizer);
  } else {
    const fs::path path = fs::path(name).extension() == ".gguf" ? unpack_gguf(name, result.unpacked) : fs::path(name);
    static_cast<CorpusTokenizer&>(result) = open_corpus_tokenizer(path);
    result.files = read_files(path);
    result.folder = folder_of(path);
  }
  result.hash = hash_of(result.files);
  return result;
}

const std::string& tokenizer_name(const RunConfig& config) {
  return config.data.tokenizer.empty() ? config.model.path : config.data.tokenizer;
}

std::optional<TokenId> end_of_text(const RunTokenizer& tokenizer, const DataConfig& config) {
  if (tokenizer.is_chars() || config.eos == "none") return std::nullopt;
  if (config.eos == "auto") return tokenizer.eos;
  const std::optional<TokenId> id = tokenizer.tokenizer->id(config.eos);
  if (!id)
    throw usage_error(fmt::format("the tokenizer has no token '{}'", config.eos),
                      "set data.eos to another token, auto or none");
  return id;
}

std::vector<TokenId> text_prompt(const RunTokenizer& tokenizer) {
  std::vector<TokenId> ids = tokenizer.tokenizer->encode("\n").ids;
  // Normalisers may drop a line break.
  if (ids.empty()) ids = {tokenizer.eos.value_or(0)};
  return ids;
}

}  // namespace gradmill
