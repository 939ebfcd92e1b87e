// SPDX-License-Identifier: Apache-2.0
#include "files/strict_json.h"
#include "tokenizer/component_readers.h"

namespace gradmill {
namespace {

using nlohmann::json;

SplitBehavior read_behavior(const JsonReader& reader, const json& part) {
  const std::string name = reader.text(part, "behavior");
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw reader.unknown(fmt::format("the split behavior {} is not known", quote_for_message(name)));
}

std::unique_ptr<const PreTokenizer> read_metaspace_pre_tokenizer(const JsonReader& reader, const json& part) {
  const std::string name = reader.text(part, "prepend_scheme");
  PrependScheme scheme = PrependScheme::always;
  if (name == "first") scheme = PrependScheme::first;
  if (name == "never") scheme = PrependScheme::never;
  if (!name.empty() && name != "always" && scheme == PrependScheme::always) {
    throw reader.unknown(fmt::format("the prepend_scheme {} is not known", quote_for_message(name)));
  }
  // Older files have no scheme.
  if (!reader.flag(part, "add_prefix_space", true)) scheme = PrependScheme::never;
  return make_metaspace(reader.character(part, "replacement"), scheme, reader.flag(part, "split", true));
}

// Some patterns have scanners that leave no gaps; keeping the matches and isolating them is then the same.
std::unique_ptr<const PreTokenizer> read_split(const JsonReader& reader, const json& part) {
  const SplitBehavior behavior = read_behavior(reader, part);
  const bool invert = reader.flag(part, "invert");
  const auto kind = split_kind_of_pattern(reader.text(reader.object(part, "pattern"), "Regex"));
  if (kind && (behavior == SplitBehavior::isolated || (behavior == SplitBehavior::removed && invert))) {
    return make_scanner(*kind);
  }
  return make_split(read_pattern(reader, part), behavior, invert);
}

std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const JsonReader& reader, const json& part,
                                                       const std::string& type) {
  using Kind = CharSet::Kind;
  if (type == "BertPreTokenizer") return make_bert_pre_tokenizer();
  if (type == "Whitespace") return make_split(TextPattern::words(), SplitBehavior::removed, true);
  if (type == "WhitespaceSplit") {
    return make_split(TextPattern::characters(Kind::space), SplitBehavior::removed, false);
  }
  if (type == "Punctuation") {
    const bool named = !JsonReader::member(part, "behavior").is_null();
    const auto behavior = named ? read_behavior(reader, part) : SplitBehavior::isolated;
    return make_split(TextPattern::characters(Kind::punctuation), behavior, false);
  }
  if (type == "CharDelimiterSplit") {
    return make_split(TextPattern::literal(reader.character(part, "delimiter")), SplitBehavior::removed, false);
  }
  if (type == "Metaspace") return read_metaspace_pre_tokenizer(reader, part);
  if (type == "Digits") {
    return make_scanner(reader.flag(part, "individual_digits") ? SplitKind::digits : SplitKind::digit_runs);
  }
  if (type == "Split") return read_split(reader, part);
  throw reader.unknown(fmt::format("the pre_tokenizer {} is not known", quote_for_message(type)));
}

}  // namespace

PreTokenizerList read_pre_tokenizers(const JsonReader& reader, const json& pre_tokenizer, bool raw_bytes) {
  PreTokenizerList list;
  const auto parts = reader.flatten(pre_tokenizer, "pre_tokenizer", "pretokenizers");
  for (const json* part : parts) {
    const std::string type = reader.type_of(*part, "pre_tokenizer");
    if (type != "ByteLevel") {
      list.push_back(read_pre_tokenizer(reader, *part, type));
      continue;
    }
    if (reader.flag(*part, "add_prefix_space", true)) list.push_back(make_prefix_space());
    if (reader.flag(*part, "use_regex", true)) list.push_back(make_scanner(SplitKind::gpt2));
    if (!raw_bytes) list.push_back(make_byte_spelling());
  }
  return list;
}

}  // namespace gradmill
