// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/decoder.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

using Tokens = std::vector<std::string>;

std::string join(const Tokens& tokens, std::string_view between = "") {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += between;
    text += tokens[i];
  }
  return text;
}

std::string replace_all(std::string_view text, const TextPattern& pattern, std::string_view with) {
  std::string result;
  size_t done = 0;
  for (TokenSpan match = pattern.find(text, 0); match.begin < text.size(); match = pattern.find(text, match.end)) {
    result.append(text.substr(done, match.begin - done)).append(with);
    done = match.end;
  }
  return result.append(text.substr(done));
}

// Turns a function of (tokens, replace_invalid) into a decode step.
template <typename Function>
class FunctionStep final : public DecodeStep {
 public:
  explicit FunctionStep(Function function) : function_(std::move(function)) {}
  void apply(Tokens& tokens, bool replace_invalid) const override { function_(tokens, replace_invalid); }

 private:
  Function function_;
};

template <typename Function>
std::unique_ptr<const DecodeStep> make_step(Function function) {
  return std::make_unique<FunctionStep<Function>>(std::move(function));
}

// Removes the spaces that splitting puts before punctuation and contractions. Each pattern is applied in a separate
// pass, in this order.
std::string clean_up(std::string text) {
  static const std::array<std::pair<TextPattern, std::string_view>, 11> kRules = {{
      {TextPattern::literal(" ."), "."},
      {TextPattern::literal(" ?"), "?"},
      {TextPattern::literal(" !"), "!"},
      {TextPattern::literal(" ,"), ","},
      {TextPattern::literal(" ' "), "'"},
      {TextPattern::literal(" n't"), "n't"},
      {TextPattern::literal(" 'm"), "'m"},
      {TextPattern::literal(" do not"), " don't"},
      {TextPattern::literal(" 's"), "'s"},
      {TextPattern::literal(" 've"), "'ve"},
      {TextPattern::literal(" 're"), "'re"},
  }};
  if (text.find(' ') == std::string::npos) return text;
  for (const auto& [pattern, with] : kRules) text = replace_all(text, pattern, with);
  return text;
}

// The byte of a token such as `<0xE2>`.
std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with(">")) return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

// Turns a run of bytes into text or, if it is not UTF-8, into one U+FFFD per byte.
void append_bytes(std::string& bytes, Tokens& tokens, bool replace_invalid) {
  if (bytes.empty()) return;
  if (replace_invalid && replace_invalid_utf8(bytes) != bytes)
    tokens.insert(tokens.end(), bytes.size(), "\xEF\xBF\xBD");
  else
    tokens.push_back(bytes);
  bytes.clear();
}

void decode_byte_fallback(Tokens& tokens, bool replace_invalid) {
  Tokens result;
  std::string bytes;
  for (std::string& token : tokens) {
    if (const auto byte = byte_of_token(token)) {
      bytes += *byte;
      continue;
    }
    append_bytes(bytes, result, replace_invalid);
    result.push_back(std::move(token));
  }
  append_bytes(bytes, result, replace_invalid);
  tokens = std::move(result);
}

std::string strip(const std::string& token, std::string_view content, size_t start, size_t stop) {
  std::string_view text = token;
  size_t begin = 0, end = text.size();
  for (; start > 0 && text.substr(begin).starts_with(content); --start) begin += content.size();
  // The end is compared with the whole token, including characters already removed from its beginning.
  for (; stop > 0 && text.substr(0, end).ends_with(content); --stop) end -= content.size();
  return begin < end ? std::string(text.substr(begin, end - begin)) : std::string();
}

}  // namespace

std::unique_ptr<const DecodeStep> make_byte_level_decoder() {
  return make_step([](Tokens& tokens, bool replace_invalid) {
    std::string text;
    for (const std::string& token : tokens) text += unspell_bytes(token).value_or(token);
    tokens = {replace_invalid ? replace_invalid_utf8(text) : std::move(text)};
  });
}

std::unique_ptr<const DecodeStep> make_word_piece_decoder(std::string prefix, bool cleanup) {
  return make_step([prefix = std::move(prefix), cleanup](Tokens& tokens, bool) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
      if (cleanup) token = clean_up(std::move(token));
    }
  });
}

std::unique_ptr<const DecodeStep> make_metaspace_decoder(std::string replacement, bool drop_first) {
  return make_step([pattern = TextPattern::literal(std::move(replacement)), drop_first](Tokens& tokens, bool) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replace_all(tokens[i], pattern, i == 0 && drop_first ? "" : " ");
    }
  });
}

std::unique_ptr<const DecodeStep> make_replace_decoder(TextPattern pattern, std::string content) {
  return make_step([pattern = std::move(pattern), content = std::move(content)](Tokens& tokens, bool) {
    for (std::string& token : tokens) token = replace_all(token, pattern, content);
  });
}

std::unique_ptr<const DecodeStep> make_byte_fallback_decoder() { return make_step(decode_byte_fallback); }

std::unique_ptr<const DecodeStep> make_fuse_decoder() { return make_joiner(""); }

std::unique_ptr<const DecodeStep> make_strip_decoder(std::string content, size_t start, size_t stop) {
  return make_step([content = std::move(content), start, stop](Tokens& tokens, bool) {
    for (std::string& token : tokens) token = strip(token, content, start, stop);
  });
}

std::unique_ptr<const DecodeStep> make_bpe_decoder(std::string suffix) {
  return make_step([pattern = TextPattern::literal(std::move(suffix))](Tokens& tokens, bool) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replace_all(tokens[i], pattern, i + 1 == tokens.size() ? "" : " ");
    }
  });
}

std::unique_ptr<const DecodeStep> make_joiner(std::string between) {
  return make_step([between = std::move(between)](Tokens& tokens, bool) { tokens = {join(tokens, between)}; });
}

std::unique_ptr<const DecodeStep> make_leading_space_remover(std::string space, bool all) {
  return make_step([space = std::move(space), all](Tokens& tokens, bool) {
    for (std::string& token : tokens) {
      const bool has_space = token.starts_with(space);
      if (has_space) token.erase(0, space.size());
      if (!token.empty() || (has_space && !all)) return;
    }
  });
}

std::unique_ptr<const DecodeStep> make_token_surface(std::string token, std::string surface) {
  return make_step([token = std::move(token), surface = std::move(surface)](Tokens& tokens, bool) {
    for (std::string& each : tokens) {
      if (each == token) each = surface;
    }
  });
}

}  // namespace gradmill
