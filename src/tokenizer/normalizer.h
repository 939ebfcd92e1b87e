// SPDX-License-Identifier: Apache-2.0
// The steps that normalise a text before it is cut into words, with the names used in tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/normalized_text.h"
#include "tokenizer/text_pattern.h"
#include "tokenizer/unicode_forms.h"

namespace gradmill {

// Immutable. Takes O(n) or O(n log n) time.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void rewrite(Rewriter& out) const = 0;
};

using NormalizerList = std::vector<std::unique_ptr<const Normalizer>>;

struct BertNormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};
// Appends the steps that make up BertNormalizer.
void add_bert_normalizer(const BertNormalizerOptions& options, NormalizerList& list);

std::unique_ptr<const Normalizer> make_form_normalizer(UnicodeForm form);
std::unique_ptr<const Normalizer> make_lowercase();
std::unique_ptr<const Normalizer> make_strip_accents();  // removes marks without decomposing first
std::unique_ptr<const Normalizer> make_strip(bool left, bool right);
std::unique_ptr<const Normalizer> make_replace(TextPattern pattern, std::string content);
std::unique_ptr<const Normalizer> make_prepend(std::string prefix);  // leaves an empty text empty
std::unique_ptr<const Normalizer> make_nmt();
std::unique_ptr<const Normalizer> make_byte_speller();  // spells each byte as in byte_level.h
// Replaces bytes that are not UTF-8 with U+FFFD, for models of characters.
std::unique_ptr<const Normalizer> make_utf8_repair();

// Applies all steps to the text.
std::string normalize_all(const NormalizerList& list, std::string_view text);

}  // namespace gradmill
