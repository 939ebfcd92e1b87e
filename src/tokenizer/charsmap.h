// SPDX-License-Identifier: Apache-2.0
// SentencePiece's precompiled normalisation: a double-array trie from characters to their replacements.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/normalizer.h"

namespace gradmill {

class Charsmap {
 public:
  // Throws a data_error that starts with `where` if the bytes are not a valid map. An empty string is an empty map.
  Charsmap(std::string_view bytes, std::string_view where);

  struct Match {
    size_t num_bytes = 0;  // length in the text; 0 if nothing matches
    std::string_view replacement;
  };
  // The shortest, or longest, prefix of the text that the map replaces.
  Match find_first(std::string_view text) const { return find(text, false); }
  Match find_longest(std::string_view text) const { return find(text, true); }

 private:
  Match find(std::string_view text, bool longest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each replacement ends with a NUL
};

// Applies the map like Hugging Face's library: clusters of less than six bytes as a whole, otherwise each character.
std::unique_ptr<const Normalizer> make_precompiled(Charsmap map);

}  // namespace gradmill
