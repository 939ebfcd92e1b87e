// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/sentencepiece_normalizer.h"

#include <utility>

#include "tokenizer/charsmap.h"
#include "tokenizer/token_trie.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

class SentencePieceNormalizer final : public Normalizer {
 public:
  explicit SentencePieceNormalizer(const SentencePieceNormalizerSettings& settings)
      : map_(settings.charsmap, settings.where),
        add_prefix_(settings.add_dummy_prefix),
        trim_(settings.remove_extra_whitespaces),
        space_(settings.space) {
    for (const std::string& piece : settings.verbatim) verbatim_.insert(piece, 0);
    has_verbatim_ = !settings.verbatim.empty();
  }

  void rewrite(Rewriter& out) const override {
    const std::string_view text = out.original();
    const size_t begin = trim_ ? skip_leading_space(text) : 0;
    if (begin == text.size()) {
      if (begin > 0) out.replace(0, begin, "");
      return;
    }
    if (begin > 0 || add_prefix_) out.replace(0, begin, add_prefix_ ? space_ : "");
    bool after_space = trim_;
    std::string with;
    for (size_t i = begin; i < text.size();) {
      const Unit unit = unit_at(text, i);
      write(unit.text, after_space, with);
      if (with != text.substr(i, unit.num_bytes)) out.replace(i, i + unit.num_bytes, with);
      i += unit.num_bytes;
    }
    if (trim_) out.strip_end(space_);
  }

 private:
  // A part of the text that is normalised separately, and its replacement from the map.
  struct Unit {
    std::string_view text;
    size_t num_bytes;
  };

  Unit unit_at(std::string_view text, size_t position) const {
    const std::string_view rest = text.substr(position);
    if (const size_t length = verbatim_length(rest); length > 0) return {rest.substr(0, length), length};
    const Charsmap::Match match = map_.find_longest(rest);
    if (match.num_bytes > 0) return {match.replacement, match.num_bytes};
    const Utf8Char c = read_utf8(text, position);
    if (c.value == kInvalidByte) return {"\xEF\xBF\xBD", 1};
    return {rest.substr(0, c.num_bytes), c.num_bytes};
  }

  size_t verbatim_length(std::string_view text) const {
    size_t length = 0;
    if (!has_verbatim_) return length;
    TokenTrie::Node node = TokenTrie::kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      node = verbatim_.next(node, text[i]);
      if (node == TokenTrie::kNone) break;
      if (verbatim_.token(node) >= 0) length = i + 1;
    }
    return length;
  }

  size_t skip_leading_space(std::string_view text) const {
    size_t position = 0;
    while (position < text.size()) {
      const Unit unit = unit_at(text, position);
      if (unit.text != " ") break;
      position += unit.num_bytes;
    }
    return position;
  }

  void write(std::string_view unit, bool& after_space, std::string& with) const {
    with.clear();
    while (after_space && unit.starts_with(' ')) unit.remove_prefix(1);
    if (unit.empty()) return;
    after_space = trim_ && unit.ends_with(' ');
    for (const char letter : unit) {
      if (letter == ' ')
        with += space_;
      else
        with += letter;
    }
  }

  Charsmap map_;
  bool add_prefix_, trim_;
  std::string space_;
  TokenTrie verbatim_;
  bool has_verbatim_ = false;
};

}  // namespace

std::unique_ptr<const Normalizer> make_sentencepiece_normalizer(const SentencePieceNormalizerSettings& settings) {
  return std::make_unique<SentencePieceNormalizer>(settings);
}

}  // namespace gradmill
