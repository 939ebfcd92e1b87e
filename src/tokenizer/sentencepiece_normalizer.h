// SPDX-License-Identifier: Apache-2.0
// SentencePiece's normalisation: the character map, white space, and the space before the first word.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/normalizer.h"

namespace gradmill {

struct SentencePieceNormalizerSettings {
  std::string charsmap;  // precompiled; may be empty
  std::string where;     // names the file in messages
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  std::string space;                  // replacement for spaces
  std::vector<std::string> verbatim;  // user-defined pieces, which are not normalised
};

std::unique_ptr<const Normalizer> make_sentencepiece_normalizer(const SentencePieceNormalizerSettings& settings);

}  // namespace gradmill
