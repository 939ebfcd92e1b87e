// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/augment.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "data/labelled/random_stream.h"
#include "data/labelled/words.h"

namespace gradmill {
namespace {

constexpr size_t kLongestSpan = 10;

void check_rate(std::string_view name, double rate) {
  if (rate >= 0 && rate <= 1) return;
  throw usage_error(fmt::format("the rate of {} is {}", name, rate), "give a number from 0 to 1");
}

bool is_ascii_upper(char c) { return c >= 'A' && c <= 'Z'; }

// Punctuation around a word is not part of it; bytes of other scripts are.
bool is_word_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || is_ascii_upper(c) || (byte >= 'a' && byte <= 'z');
}

std::string replace_word(std::string_view word, const Synonyms& synonyms, double rate, RandomStream& random) {
  const auto begin = std::ranges::find_if(word, is_word_byte) - word.begin();
  auto end = std::ssize(word);
  while (end > begin && !is_word_byte(word[static_cast<size_t>(end - 1)])) --end;
  const std::string_view core = word.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  const std::span<const std::string> list = core.empty() ? std::span<const std::string>() : synonyms.find(core);
  if (list.empty() || !random.chance(rate)) return std::string(word);
  std::string chosen = list[random.below(list.size())];
  if (is_ascii_upper(core[0]) && chosen[0] >= 'a' && chosen[0] <= 'z') {
    chosen[0] = static_cast<char>(chosen[0] - 'a' + 'A');
  }
  return fmt::format("{}{}{}", word.substr(0, static_cast<size_t>(begin)), chosen,
                     word.substr(static_cast<size_t>(end)));
}

void swap_words(const std::vector<Word*>& words, double rate, RandomStream& random) {
  if (words.size() < 2) return;
  for (size_t count = random.around(rate * static_cast<double>(words.size())); count > 0; --count) {
    const size_t a = random.below(words.size()), other = random.below(words.size() - 1);
    std::swap(words[a]->text, words[other + (other >= a ? 1 : 0)]->text);
  }
}

// `open` contains the words that may be deleted.
void delete_words(std::vector<Word>& words, const std::vector<Word*>& open, double rate, RandomStream& random) {
  if (open.empty()) return;
  const std::string end = words.back().separator;
  const Word stays = *open[random.below(open.size())];  // kept if all others are deleted
  for (Word* word : open) {
    if (random.chance(rate)) word->text.clear();
  }
  std::erase_if(words, [](const Word& word) { return word.text.empty(); });
  if (words.empty()) words.push_back(stays);
  words.back().separator = end;  // the separator at the end must stay the same
}

// 1: the token may change.
std::vector<uint8_t> open_tokens(const Sequence& sequence, std::vector<TokenId> kept) {
  for (size_t i = 0; i < sequence.ids.size(); ++i) {
    if (sequence.special[i]) kept.push_back(sequence.ids[i]);
  }
  std::ranges::sort(kept);
  std::vector<uint8_t> open;
  for (const TokenId id : sequence.ids) open.push_back(std::ranges::binary_search(kept, id) ? 0 : 1);
  return open;
}

}  // namespace

Augmenter::Augmenter(AugmentOptions options, Synonyms synonyms, uint64_t seed)
    : options_(std::move(options)), synonyms_(std::move(synonyms)), seed_(seed) {
  check_rate("synonyms", options_.synonyms);
  check_rate("swap", options_.swap);
  check_rate("deletion", options_.deletion);
  check_rate("span masking", options_.span_mask);
  check_rate("token dropout", options_.token_dropout);
  if (!(options_.span_length >= 1 && options_.span_length <= kLongestSpan)) {
    throw usage_error(fmt::format("masked spans of {} tokens", options_.span_length),
                      fmt::format("give a number from 1 to {}", kLongestSpan));
  }
  if (options_.span_mask > 0 && options_.mask_id < 0) {
    throw usage_error("span masking without a mask token", "name it, or use token dropout");
  }
  if (options_.token_dropout > 0 && options_.dropout_id < 0) {
    throw usage_error("token dropout without a token to put in", "name the unknown or the mask token");
  }
  if (options_.synonyms > 0 && synonyms_.empty()) {
    throw usage_error("synonym replacement without synonyms", "name a file of them");
  }
  std::ranges::sort(options_.kept_ids);
  std::ranges::sort(options_.kept_words);
}

Sequence Augmenter::sequence(const EncodedSet& set, int32_t example, int64_t epoch) const {
  const LabelledExample& texts = set.example(example);
  std::optional<std::string> first = change_words(texts.first, example, epoch, 0), second;
  if (set.set().pairs) second = change_words(texts.second, example, epoch, 1);
  const bool changed = first || second;
  Sequence sequence =
      changed ? set.sequence_of(first ? *first : texts.first, second ? *second : texts.second) : set.sequence(example);
  // If the remaining words have no token, use the unchanged example, which has some.
  if (sequence.ids.empty()) sequence = set.sequence(example);
  change_tokens(sequence, example, epoch);
  return sequence;
}

std::optional<std::string> Augmenter::change_words(std::string_view text, int32_t example, int64_t epoch,
                                                   int part) const {
  if (options_.synonyms == 0 && options_.swap == 0 && options_.deletion == 0) return std::nullopt;
  const auto stream = [&](uint32_t site) {
    return RandomStream(seed_, site + static_cast<uint32_t>(part), epoch, example);
  };
  WordList list = split_words(text);
  std::vector<Word*> open;
  for (Word& word : list.words) {
    if (!std::ranges::binary_search(options_.kept_words, word.text)) open.push_back(&word);
  }
  if (options_.synonyms > 0) {
    RandomStream random = stream(RngSite::kSynonyms);
    for (Word* word : open) word->text = replace_word(word->text, synonyms_, options_.synonyms, random);
  }
  if (options_.swap > 0) {
    RandomStream random = stream(RngSite::kSwap);
    swap_words(open, options_.swap, random);
  }
  if (options_.deletion > 0) {
    RandomStream random = stream(RngSite::kDeletion);
    delete_words(list.words, open, options_.deletion, random);
  }
  std::string changed = join_words(list);
  return changed == text ? std::nullopt : std::optional(std::move(changed));
}

void Augmenter::change_tokens(Sequence& sequence, int32_t example, int64_t epoch) const {
  if (options_.span_mask == 0 && options_.token_dropout == 0) return;
  // The positions of original tokens that may change. A span ends at the first token that may not.
  std::vector<uint8_t> open = open_tokens(sequence, options_.kept_ids);
  const auto num_open = static_cast<size_t>(std::ranges::count(open, 1));
  if (num_open == 0) return;
  if (options_.token_dropout > 0) {
    RandomStream random(seed_, RngSite::kTokenDropout, epoch, example);
    for (size_t i = 0; i < open.size(); ++i) {
      if (random.chance(options_.token_dropout) && open[i]) sequence.ids[i] = options_.dropout_id;
    }
  }
  if (options_.span_mask == 0) return;
  RandomStream random(seed_, RngSite::kSpanMask, epoch, example);
  size_t left = std::min(random.around(options_.span_mask * static_cast<double>(num_open)), num_open);
  // A start that hits a masked token is tried again, but the number of tries is limited: near a rate of 1 few tokens
  // are free.
  for (size_t tries = 20 * num_open; left > 0 && tries > 0; --tries) {
    size_t length = 1;
    while (length < kLongestSpan && random.chance(1 - 1 / options_.span_length)) ++length;
    for (size_t i = random.below(open.size()); i < open.size() && open[i] && length > 0 && left > 0; ++i) {
      sequence.ids[i] = options_.mask_id;
      open[i] = 0;
      --length, --left;
    }
  }
}

}  // namespace gradmill
