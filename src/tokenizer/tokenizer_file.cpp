// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/tokenizer_file.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "core/error.h"
#include "tokenizer/component_readers.h"
#include "tokenizer/json_text.h"

namespace gradmill {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{1} << 28;  // the largest known file has 40 MB

// Whether this is byte-level BPE, the most common and fastest case: the model works on raw bytes, bytes are never
// spelled as characters, and bytes that are not UTF-8 survive.
bool is_raw_bytes(const JsonReader& reader, const json& document, const json& model) {
  const std::string type = reader.text(model, "type");
  if (type != "BPE" && !(type.empty() && model.contains("merges"))) return false;
  if (reader.flag(model, "byte_fallback")) return false;
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!reader.text(model, name).empty()) return false;
  }
  const auto pre = reader.flatten(JsonReader::member(document, "pre_tokenizer"), "pre_tokenizer", "pretokenizers");
  const auto decoders = reader.flatten(JsonReader::member(document, "decoder"), "decoder", "decoders");
  const auto is_byte_level = [&](const json* part) { return reader.text(*part, "type") == "ByteLevel"; };
  // A step after ByteLevel would see the spelling of bytes.
  return !pre.empty() && is_byte_level(pre.back()) && std::ranges::count_if(pre, is_byte_level) == 1 &&
         decoders.size() == 1 && is_byte_level(decoders[0]);
}

}  // namespace

std::unique_ptr<PipelineTokenizer> parse_tokenizer_json(std::string_view text, std::string_view where) {
  const JsonReader reader(where);
  const json document = parse_json_text(text, where);
  if (!document.is_object()) throw reader.bad("the file is not a JSON object");
  const json& model = reader.object(document, "model");
  const bool raw_bytes = is_raw_bytes(reader, document, model);
  PipelineParts parts;
  if (!raw_bytes) parts.normalizers.push_back(make_utf8_repair());
  for (auto& normalizer : read_normalizers(reader, JsonReader::member(document, "normalizer"))) {
    parts.normalizers.push_back(std::move(normalizer));
  }
  parts.pre_tokenizers = read_pre_tokenizers(reader, JsonReader::member(document, "pre_tokenizer"), raw_bytes);
  if (!raw_bytes) parts.decoders = read_decoders(reader, JsonReader::member(document, "decoder"));
  parts.model = read_model(reader, model, raw_bytes);
  const Vocabulary& vocabulary = parts.model->vocabulary();
  parts.added_tokens = read_added_tokens(reader, JsonReader::member(document, "added_tokens"), vocabulary);
  int64_t vocab_size = vocabulary.size();
  for (const AddedToken& token : parts.added_tokens) vocab_size = std::max(vocab_size, int64_t{token.id} + 1);
  parts.sequence_template = read_template(reader, JsonReader::member(document, "post_processor"), vocab_size);
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

std::string read_tokenizer_bytes(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    throw data_error(fmt::format("cannot read '{}': {}", path.string(), error.message()), "check the path");
  }
  if (size > kMaxFileBytes) {
    throw data_error(fmt::format("'{}' has {} bytes, too many for a tokenizer", path.string(), size), "check the path");
  }
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    throw data_error(fmt::format("cannot read '{}'", path.string()), "check its permissions and the disk");
  }
  return text;
}

}  // namespace gradmill
