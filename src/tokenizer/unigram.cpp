// SPDX-License-Identifier: Apache-2.0
// Viterbi from left to right. Details, such as which of two equal sums wins, follow the fast versions of Hugging Face's
// library and SentencePiece, which agree.
#include "tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "files/strict_json.h"
#include "tokenizer/char_bpe.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

constexpr double kUnknownPenalty = 10;
// SentencePiece restarts its single-precision sums at this value, because they lose their last digits in long texts.
constexpr double kResetScore = 100000;

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options)
    : vocabulary_(std::move(vocabulary)),
      scores_(std::move(scores)),
      options_(options),
      byte_ids_(find_byte_tokens(vocabulary_)) {
  std::vector<bool> hidden(scores_.size());
  for (const TokenId id : options_.hidden) hidden[static_cast<size_t>(id)] = true;
  if (!options_.user_defined.empty()) is_user_defined_.resize(scores_.size());
  for (const TokenId id : options_.user_defined) is_user_defined_[static_cast<size_t>(id)] = true;
  double min_score = 0;
  bool any = false;
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const auto i = static_cast<size_t>(id);
    if (!vocabulary_.has(id) || hidden[i]) continue;
    trie_.insert(vocabulary_.bytes(id), id);
    if (!is_user_defined_.empty() && is_user_defined_[i]) continue;
    min_score = any ? std::min(min_score, scores_[i]) : scores_[i];
    max_score_ = any ? std::max(max_score_, scores_[i]) : scores_[i];
    any = true;
  }
  unknown_score_ = add(min_score, -kUnknownPenalty);
}

double Unigram::add(double sum, double score) const {
  return options_.single_precision ? static_cast<double>(static_cast<float>(sum + score)) : sum + score;
}

double Unigram::score_of(TokenId id, size_t length) const {
  const auto i = static_cast<size_t>(id);
  if (is_user_defined_.empty() || !is_user_defined_[i]) return scores_[i];
  // With SentencePiece's mix of precisions.
  const float scaled = static_cast<float>(length) * static_cast<float>(max_score_);
  return static_cast<double>(static_cast<float>(static_cast<double>(scaled) - 0.1));
}

void Unigram::search(std::string_view word, std::vector<Step>& best) const {
  size_t frontier = 0;  // the furthest position reached
  const auto offer = [&](size_t end, double score, size_t begin, TokenId id) {
    frontier = std::max(frontier, end);
    Step& step = best[end];
    if (step.begin == kUnreached || score > step.score) step = {score, static_cast<uint32_t>(begin), id};
  };
  for (size_t begin = 0; begin < word.size();) {
    if (options_.single_precision && std::abs(best[begin].score) > kResetScore) {
      const double offset = best[begin].score;
      for (size_t i = begin; i <= frontier; ++i) {
        if (i == begin || best[i].begin != kUnreached) best[i].score = add(best[i].score, -offset);
      }
    }
    const double so_far = best[begin].score;
    const size_t char_end = begin + read_utf8(word, begin).num_bytes;
    bool has_char = false;
    TokenTrie::Node node = TokenTrie::kRoot;
    for (size_t i = begin; i < word.size(); ++i) {
      node = trie_.next(node, word[i]);
      if (node == TokenTrie::kNone) break;
      const TokenId id = trie_.token(node);
      if (id < 0) continue;
      offer(i + 1, add(so_far, score_of(id, i + 1 - begin)), begin, id);
      has_char |= i + 1 == char_end;
    }
    if (!has_char) offer(char_end, add(so_far, unknown_score_), begin, options_.unknown);
    begin = char_end;
  }
}

void Unigram::encode_word(std::string_view word, std::vector<WordToken>& tokens) const {
  std::vector<Step> best(word.size() + 1);
  search(word, best);
  std::vector<TokenSpan> parts;  // from right to left; neighbouring unknown parts are joined
  bool after_unknown = false;
  for (size_t end = word.size(); end > 0;) {
    const Step& step = best[end];
    const bool unknown = step.id == options_.unknown;
    if (unknown && after_unknown)
      parts.back().begin = step.begin;
    else
      parts.push_back({step.begin, end});
    after_unknown = unknown;
    end = step.begin;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const Step& step = best[part->end];
    const std::string_view text = word.substr(part->begin, part->end - part->begin);
    if (step.id == options_.unknown)
      emit_unknown(text, tokens);
    else
      tokens.push_back({step.id, static_cast<uint32_t>(text.size())});
  }
}

void Unigram::emit_unknown(std::string_view part, std::vector<WordToken>& tokens) const {
  // The text may contain the spelling of the unknown token itself.
  if (const auto id = vocabulary_.id_of_bytes(part); id && options_.hidden.empty()) {
    return tokens.push_back({*id, static_cast<uint32_t>(part.size())});
  }
  const auto id_of = [this](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (options_.byte_fallback && std::ranges::all_of(part, [&](char byte) { return id_of(byte) >= 0; })) {
    for (const char byte : part) tokens.push_back({id_of(byte), 1});
    return;
  }
  if (options_.unknown < 0) {
    throw data_error(
        fmt::format("{} has no token in this vocabulary, nor has it an unknown token", quote_for_message(part)),
        "use another vocabulary or take the characters out of the text");
  }
  tokens.push_back({options_.unknown, static_cast<uint32_t>(part.size())});
}

}  // namespace gradmill
