// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/sentencepiece_proto.h"

#include <bit>
#include <cstring>

#include "core/error.h"

namespace gradmill {
namespace {

constexpr size_t kMaxPieces = 4'000'000;

// Iterates over the fields of one protobuf message. Views point into the file.
class FieldReader {
 public:
  FieldReader(std::string_view bytes, size_t origin, std::string_view where)
      : bytes_(bytes), origin_(origin), where_(where) {}

  struct Field {
    uint32_t number = 0;
    uint64_t value = 0;  // for a number
    float real = 0;
    std::string_view bytes;  // for a string or message
    size_t origin = 0;       // where `bytes` begins in the file
  };

  bool next(Field& field) {
    if (position_ == bytes_.size()) return false;
    const uint64_t tag = varint();
    field = {};
    field.number = static_cast<uint32_t>(tag >> 3);
    if (tag >> 32 != 0 || field.number == 0) throw damaged();
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        take(8);
        break;
      case 2: {
        const uint64_t size = varint();
        field.origin = origin_ + position_;
        field.bytes = take(size);
        break;
      }
      case 5: {
        uint32_t bits;
        std::memcpy(&bits, take(4).data(), 4);
        field.real = std::bit_cast<float>(bits);
        break;
      }
      default:
        throw damaged();
    }
    return true;
  }

  Error damaged() const {
    return data_error(fmt::format("{}: not a SentencePiece model: damaged at byte {}", where_, origin_ + position_),
                      "fetch or make the file again");
  }

 private:
  std::string_view take(uint64_t size) {
    if (size > bytes_.size() - position_) throw damaged();
    const std::string_view part = bytes_.substr(position_, size);
    position_ += size;
    return part;
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    throw damaged();
  }

  std::string_view bytes_;
  size_t position_ = 0, origin_;
  std::string_view where_;
};

using Field = FieldReader::Field;

SentencePieceFile::Piece read_piece(const Field& message, std::string_view where) {
  FieldReader reader(message.bytes, message.origin, where);
  SentencePieceFile::Piece piece;
  Field field;
  while (reader.next(field)) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = field.real;
    if (field.number == 3) {
      if (field.value < 1 || field.value > 6) throw reader.damaged();
      piece.type = static_cast<SentencePieceFile::PieceType>(field.value);
    }
  }
  return piece;
}

void read_trainer_spec(const Field& message, std::string_view where, SentencePieceFile& file) {
  FieldReader reader(message.bytes, message.origin, where);
  Field field;
  while (reader.next(field)) {
    if (field.number == 3) {
      if (field.value < 1 || field.value > 4) throw reader.damaged();
      file.model_type = static_cast<SentencePieceFile::ModelType>(field.value);
    }
    if (field.number == 24) file.whitespace_as_suffix = field.value != 0;
    if (field.number == 35) file.byte_fallback = field.value != 0;
    if (field.number == 44) file.unknown_surface = field.bytes;
  }
}

void read_normalizer_spec(const Field& message, std::string_view where, SentencePieceFile& file) {
  FieldReader reader(message.bytes, message.origin, where);
  Field field;
  while (reader.next(field)) {
    if (field.number == 2) file.charsmap = field.bytes;
    if (field.number == 3) file.add_dummy_prefix = field.value != 0;
    if (field.number == 4) file.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) file.escape_whitespaces = field.value != 0;
  }
}

}  // namespace

SentencePieceFile parse_sentencepiece_file(std::string_view bytes, std::string_view where) {
  FieldReader reader(bytes, 0, where);
  SentencePieceFile file;
  Field field;
  while (reader.next(field)) {
    if (field.number == 1) {
      if (file.pieces.size() == kMaxPieces) throw reader.damaged();
      file.pieces.push_back(read_piece(field, where));
    }
    if (field.number == 2) read_trainer_spec(field, where, file);
    if (field.number == 3) read_normalizer_spec(field, where, file);
  }
  if (file.pieces.empty()) {
    throw data_error(fmt::format("{}: not a SentencePiece model: it has no pieces", where), "check the path");
  }
  return file;
}

}  // namespace gradmill
