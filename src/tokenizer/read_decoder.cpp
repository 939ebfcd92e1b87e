// SPDX-License-Identifier: Apache-2.0
#include "files/strict_json.h"
#include "tokenizer/component_readers.h"

namespace gradmill {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxStrip = 1 << 20;

std::unique_ptr<const DecodeStep> read_metaspace_decoder(const JsonReader& reader, const json& part) {
  const bool never = reader.text(part, "prepend_scheme") == "never" || !reader.flag(part, "add_prefix_space", true);
  return make_metaspace_decoder(reader.character(part, "replacement"), !never);
}

std::unique_ptr<const DecodeStep> read_decode_step(const JsonReader& reader, const json& part) {
  const std::string type = reader.type_of(part, "decoder");
  if (type == "ByteLevel") return make_byte_level_decoder();
  if (type == "WordPiece") {
    const bool named = !JsonReader::member(part, "prefix").is_null();
    return make_word_piece_decoder(named ? reader.short_text(part, "prefix") : "##",
                                   reader.flag(part, "cleanup", true));
  }
  if (type == "Metaspace") return read_metaspace_decoder(reader, part);
  if (type == "Replace") return make_replace_decoder(read_pattern(reader, part), reader.short_text(part, "content"));
  if (type == "ByteFallback") return make_byte_fallback_decoder();
  if (type == "Fuse") return make_fuse_decoder();
  if (type == "Strip") {
    return make_strip_decoder(reader.character(part, "content"), reader.number(part, "start", 0, kMaxStrip),
                              reader.number(part, "stop", 0, kMaxStrip));
  }
  if (type == "BPEDecoder") {
    const std::string suffix = reader.short_text(part, "suffix");
    return make_bpe_decoder(suffix.empty() ? "</w>" : suffix);
  }
  throw reader.unknown(fmt::format("the decoder {} is not known", quote_for_message(type)));
}

}  // namespace

DecoderList read_decoders(const JsonReader& reader, const json& decoder) {
  DecoderList list;
  for (const json* part : reader.flatten(decoder, "decoder", "decoders"))
    list.push_back(read_decode_step(reader, *part));
  if (decoder.is_null()) list.push_back(make_joiner(" "));
  if (list.empty()) list.push_back(make_fuse_decoder());
  return list;
}

}  // namespace gradmill
