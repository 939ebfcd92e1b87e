// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "files/strict_json.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/component_readers.h"

namespace gradmill {
namespace {

using nlohmann::json;

std::string decode_base64(const JsonReader& reader, std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> values;
  values.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int>(i);
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char letter : text) {
    const int value = values[static_cast<unsigned char>(letter)];
    if (value < 0) throw reader.bad("'precompiled_charsmap' is not base64");
    bits = bits << 6 | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes += static_cast<char>(bits >> num_bits);
    }
  }
  return bytes;
}

void read_bert(const JsonReader& reader, const json& part, NormalizerList& list) {
  BertNormalizerOptions options;
  options.clean_text = reader.flag(part, "clean_text", true);
  options.handle_chinese_chars = reader.flag(part, "handle_chinese_chars", true);
  options.lowercase = reader.flag(part, "lowercase", true);
  options.strip_accents = reader.flag(part, "strip_accents", options.lowercase);
  add_bert_normalizer(options, list);
}

std::unique_ptr<const Normalizer> read_normalizer(const JsonReader& reader, const json& part, const std::string& type) {
  if (type == "NFC") return make_form_normalizer(UnicodeForm::nfc);
  if (type == "NFD") return make_form_normalizer(UnicodeForm::nfd);
  if (type == "NFKC") return make_form_normalizer(UnicodeForm::nfkc);
  if (type == "NFKD") return make_form_normalizer(UnicodeForm::nfkd);
  if (type == "Lowercase") return make_lowercase();
  if (type == "StripAccents") return make_strip_accents();
  if (type == "Strip") return make_strip(reader.flag(part, "strip_left", true), reader.flag(part, "strip_right", true));
  if (type == "Replace") return make_replace(read_pattern(reader, part), reader.short_text(part, "content"));
  if (type == "Prepend") return make_prepend(reader.short_text(part, "prepend"));
  if (type == "Nmt") return make_nmt();
  if (type == "ByteLevel") return make_byte_speller();
  if (type == "Precompiled") {
    const std::string map = decode_base64(reader, reader.text(part, "precompiled_charsmap"));
    return make_precompiled(Charsmap(map, reader.where()));
  }
  throw reader.unknown(fmt::format("the normalizer {} is not known", quote_for_message(type)));
}

}  // namespace

TextPattern read_pattern(const JsonReader& reader, const json& component) {
  const json& pattern = reader.object(component, "pattern");
  if (const std::string literal = reader.short_text(pattern, "String"); !literal.empty()) {
    return TextPattern::literal(literal);
  }
  const std::string expression = reader.text(pattern, "Regex");
  if (expression.empty()) throw reader.bad("a 'pattern' is empty");
  const auto regex = TextPattern::regex(expression);
  if (!regex)
    throw reader.unknown(fmt::format("the regular expression {} is not known", quote_for_message(expression)));
  return *regex;
}

NormalizerList read_normalizers(const JsonReader& reader, const json& normalizer) {
  NormalizerList list;
  for (const json* part : reader.flatten(normalizer, "normalizer", "normalizers")) {
    const std::string type = reader.type_of(*part, "normalizer");
    if (type == "BertNormalizer")
      read_bert(reader, *part, list);
    else
      list.push_back(read_normalizer(reader, *part, type));
  }
  return list;
}

}  // namespace gradmill
