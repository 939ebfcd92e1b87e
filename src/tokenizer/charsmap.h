// SPDX-License-Identifier: Apache-2.0
// SentencePiece's precompiled normalisation: a double-array trie from characters to what replaces them.
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
  // Throws a data_error, its message starting with `where`, for bytes that are no such map. No bytes are an empty map.
  Charsmap(std::string_view bytes, std::string_view where);

  struct Match {
    size_t num_bytes = 0;  // of the text; 0 where nothing matches
    std::string_view replacement;
  };
  // The shortest, or longest, beginning of the text that the map replaces.
  Match find_first(std::string_view text) const { return find(text, false); }
  Match find_longest(std::string_view text) const { return find(text, true); }

 private:
  Match find(std::string_view text, bool longest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a NUL
};

// As Hugging Face's library applies it: clusters of less than six bytes as a whole, else each character.
std::unique_ptr<const Normalizer> make_precompiled(Charsmap map);

}  // namespace gradmill
