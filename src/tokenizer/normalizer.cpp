// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/normalizer.h"

#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

bool is_space(char32_t c) { return char_class(c) == CharClass::space; }

// Rewrites each character separately: a function appends its replacement and returns whether it differs.
template <typename Rule>
class CharNormalizer final : public Normalizer {
 public:
  explicit CharNormalizer(Rule rule, bool ascii_stays) : rule_(rule), ascii_stays_(ascii_stays) {}

  void rewrite(Rewriter& out) const override {
    const std::string_view text = out.original();
    if (ascii_stays_ && is_ascii(text)) return;
    std::string with;
    for (size_t i = 0; i < text.size();) {
      const Utf8Char c = read_utf8(text, i);
      with.clear();
      if (c.value != kInvalidByte && rule_(c.value, with)) out.replace(i, i + c.num_bytes, with);
      i += c.num_bytes;
    }
  }

 private:
  Rule rule_;
  bool ascii_stays_;
};

template <typename Rule>
std::unique_ptr<const Normalizer> make_char_normalizer(Rule rule, bool ascii_stays = false) {
  return std::make_unique<CharNormalizer<Rule>>(rule, ascii_stays);
}

bool clean_char(char32_t c, std::string& with) {
  if (c >= ' ' && c <= '~') return false;
  if (is_removed_by_bert(c)) return true;
  if (!is_space(c)) return false;
  with = " ";
  return true;
}

bool isolate_cjk(char32_t c, std::string& with) {
  if (!is_cjk(c)) return false;
  with = " ";
  append_code_point(with, c);
  with += ' ';
  return true;
}

bool lower_char(char32_t c, std::string& with) {
  if (c < 0x80 && (c < 'A' || c > 'Z')) return false;
  append_lower(with, c);
  return read_utf8(with, 0).value != c;
}

bool nmt_char(char32_t c, std::string& with) {
  const bool removed = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                     c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  if (space) with = " ";
  return removed || space;
}

class FormNormalizer final : public Normalizer {
 public:
  explicit FormNormalizer(UnicodeForm form) : form_(form) {}
  void rewrite(Rewriter& out) const override { normalize_form(form_, out); }

 private:
  UnicodeForm form_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  void rewrite(Rewriter& out) const override {
    const std::string_view text = out.original();
    size_t begin = 0, end = 0;  // the part that is kept
    for (size_t i = 0; i < text.size();) {
      const Utf8Char c = read_utf8(text, i);
      const bool space = is_space(c.value);
      if (space && end == 0) begin = i + c.num_bytes;
      i += c.num_bytes;
      if (!space) end = i;
    }
    if (left_ && begin > 0) out.replace(0, begin, "");
    if (right_ && end < text.size() && !(left_ && end == 0)) out.replace(end, text.size(), "");
  }

 private:
  bool left_, right_;
};

class Replace final : public Normalizer {
 public:
  Replace(TextPattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void rewrite(Rewriter& out) const override {
    const std::string_view text = out.original();
    for (TokenSpan match = pattern_.find(text, 0); match.begin < text.size(); match = pattern_.find(text, match.end)) {
      out.replace(match.begin, match.end, content_);
    }
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void rewrite(Rewriter& out) const override {
    if (!out.original().empty() && !prefix_.empty()) out.replace(0, 0, prefix_);
  }

 private:
  std::string prefix_;
};

class ByteSpeller final : public Normalizer {
 public:
  void rewrite(Rewriter& out) const override {
    const std::string_view text = out.original();
    std::string with;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const char32_t letter = byte_to_char(byte);
      if (letter == byte && byte < 0x80) continue;
      with.clear();
      append_code_point(with, letter);
      out.replace(i, i + 1, with);
    }
  }
};

class Utf8Repair final : public Normalizer {
 public:
  void rewrite(Rewriter& out) const override {
    const std::string_view text = out.original();
    if (is_ascii(text)) return;
    for (size_t i = 0; i < text.size();) {
      const size_t length = utf8_part_length(text, i);
      if (read_utf8(text, i).value == kInvalidByte) out.replace(i, i + length, "\xEF\xBF\xBD");
      i += length;
    }
  }
};

}  // namespace

void add_bert_normalizer(const BertNormalizerOptions& options, NormalizerList& list) {
  if (options.clean_text) list.push_back(make_char_normalizer(clean_char));
  if (options.handle_chinese_chars) list.push_back(make_char_normalizer(isolate_cjk, true));
  if (options.strip_accents) {
    list.push_back(make_form_normalizer(UnicodeForm::nfd));
    list.push_back(make_char_normalizer([](char32_t c, std::string&) { return is_nonspacing_mark(c); }, true));
  }
  if (options.lowercase) list.push_back(make_lowercase());
}

std::unique_ptr<const Normalizer> make_form_normalizer(UnicodeForm form) {
  return std::make_unique<FormNormalizer>(form);
}

std::unique_ptr<const Normalizer> make_lowercase() { return make_char_normalizer(lower_char); }

std::unique_ptr<const Normalizer> make_strip_accents() {
  return make_char_normalizer([](char32_t c, std::string&) { return is_combining_mark(c); }, true);
}

std::unique_ptr<const Normalizer> make_strip(bool left, bool right) { return std::make_unique<Strip>(left, right); }

std::unique_ptr<const Normalizer> make_replace(TextPattern pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}

std::unique_ptr<const Normalizer> make_prepend(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}

std::unique_ptr<const Normalizer> make_nmt() { return make_char_normalizer(nmt_char); }

std::unique_ptr<const Normalizer> make_byte_speller() { return std::make_unique<ByteSpeller>(); }

std::unique_ptr<const Normalizer> make_utf8_repair() { return std::make_unique<Utf8Repair>(); }

std::string normalize_all(const NormalizerList& list, std::string_view text) {
  std::string result(text);
  for (const auto& normalizer : list) {
    Rewriter out(result, false);
    normalizer->rewrite(out);
    if (auto rewritten = out.finish()) result = rewritten->text();
  }
  return result;
}

}  // namespace gradmill
