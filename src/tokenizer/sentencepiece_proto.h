// SPDX-License-Identifier: Apache-2.0
// The contents of a SentencePiece model file that encoding needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradmill {

struct SentencePieceFile {
  enum class PieceType : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };
  enum class ModelType : uint8_t { unigram = 1, bpe, word, character };

  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
  };

  std::vector<Piece> pieces;
  // From trainer_spec.
  ModelType model_type = ModelType::unigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  std::string unknown_surface = " \u2047 ";
  // From normalizer_spec.
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// Reads the protobuf message and skips fields that encoding does not need. If the bytes are not such a message, throws
// a data_error that starts with `where` and names the position.
SentencePieceFile parse_sentencepiece_file(std::string_view bytes, std::string_view where);

}  // namespace gradmill
