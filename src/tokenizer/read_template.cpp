// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "files/strict_json.h"
#include "tokenizer/component_readers.h"

namespace gradmill {
namespace {

using nlohmann::json;
using Piece = SequenceTemplate::Piece;
using Pieces = std::vector<Piece>;

constexpr size_t kMaxTemplatePieces = 1024;
constexpr uint64_t kMaxType = 1 << 20;

class TemplateReader {
 public:
  TemplateReader(const JsonReader& reader, int64_t vocab_size) : reader_(reader), vocab_size_(vocab_size) {}

  // Returns nothing for a component that adds no tokens.
  std::optional<SequenceTemplate> read(const json& part) const {
    const std::string type = reader_.type_of(part, "post_processor");
    if (type == "ByteLevel") return std::nullopt;  // affects offsets only
    if (type == "TemplateProcessing") {
      return SequenceTemplate(read_pieces(part, "single"), read_pieces(part, "pair"));
    }
    if (type == "BertProcessing") return SequenceTemplate::bert(token_of(part, "cls"), token_of(part, "sep"));
    if (type == "RobertaProcessing") return roberta(token_of(part, "cls"), token_of(part, "sep"));
    throw reader_.unknown(fmt::format("the post_processor {} is not known", quote_for_message(type)));
  }

 private:
  static Piece token_piece(TokenId id, int32_t type_id = 0) { return {Piece::Kind::token, type_id, id}; }

  // RoBERTa's template, which has no types.
  static SequenceTemplate roberta(TokenId cls, TokenId sep) {
    Pieces pair = {token_piece(cls), {}, token_piece(sep), token_piece(sep), {Piece::Kind::second, 0},
                   token_piece(sep)};
    return {{token_piece(cls), {}, token_piece(sep)}, std::move(pair)};
  }

  TokenId read_id(const json& value) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= static_cast<uint64_t>(vocab_size_)) {
      throw reader_.bad("the post_processor names an id that is not in the vocabulary");
    }
    return static_cast<TokenId>(value.get<uint64_t>());
  }

  // Reads a pair such as ["[CLS]", 101].
  TokenId token_of(const json& part, const char* name) const {
    const json& pair = reader_.array(part, name);
    if (pair.size() != 2) throw reader_.bad(fmt::format("'{}' of the post_processor is not a token and its id", name));
    return read_id(pair[1]);
  }

  Pieces read_pieces(const json& part, const char* name) const {
    Pieces pieces;
    size_t num_first = 0, num_second = 0;
    for (const json& item : reader_.array(part, name)) {
      if (!item.is_object()) throw reader_.bad("a piece of the template is not an object");
      const json& sequence = JsonReader::member(item, "Sequence");
      if (sequence.is_object()) {
        const bool first = reader_.text(sequence, "id") == "A";
        ++(first ? num_first : num_second);
        pieces.push_back({first ? Piece::Kind::first : Piece::Kind::second, type_id(sequence), 0});
      } else {
        read_special(part, reader_.object(item, "SpecialToken"), pieces);
      }
      if (pieces.size() > kMaxTemplatePieces) throw reader_.bad("the template has too many pieces");
    }
    const bool pair = std::string_view(name) == "pair";
    if (num_first != 1 || num_second != (pair ? 1 : 0)) {
      throw reader_.bad(fmt::format("the template '{}' does not contain each text exactly once", name));
    }
    return pieces;
  }

  int32_t type_id(const json& piece) const {
    return static_cast<int32_t>(reader_.number(piece, "type_id", 0, kMaxType));
  }

  // A special token may stand for several ids.
  void read_special(const json& part, const json& piece, Pieces& pieces) const {
    const std::string name = reader_.text(piece, "id");
    const json& special = reader_.object(part, "special_tokens");
    const auto found = special.find(name);
    if (found == special.end() || !found->is_object()) {
      throw reader_.bad(
          fmt::format("the template's token {} is not among its special_tokens", quote_for_message(name)));
    }
    const json& ids = reader_.array(*found, "ids");
    if (pieces.size() + ids.size() > kMaxTemplatePieces) throw reader_.bad("the template has too many pieces");
    for (const json& id : ids) pieces.push_back(token_piece(read_id(id), type_id(piece)));
  }

  const JsonReader& reader_;
  int64_t vocab_size_;
};

}  // namespace

SequenceTemplate read_template(const JsonReader& reader, const json& post_processor, int64_t vocab_size) {
  std::optional<SequenceTemplate> result;
  for (const json* part : reader.flatten(post_processor, "post_processor", "processors")) {
    auto read = TemplateReader(reader, vocab_size).read(*part);
    if (read && result) throw reader.unknown("the post_processor has two templates, one around the other");
    if (read) result = std::move(read);
  }
  return result.value_or(SequenceTemplate());
}

}  // namespace gradmill
