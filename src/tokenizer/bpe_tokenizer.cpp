// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

// A piece of the normalised text. Its first `prefix` bytes were put before it and have no place there.
struct Piece {
  std::string_view text;
  size_t begin = 0;
  size_t prefix = 0;

  size_t place(size_t position) const { return begin + std::max(position, prefix) - prefix; }
  Piece part(size_t from, size_t to) const {
    return {text.substr(from, to - from), place(from), prefix > from ? prefix - from : 0};
  }
};

}  // namespace

// What one call of encode() keeps.
class BpeEncoder {
 public:
  BpeEncoder(const BpeTokenizer& tokenizer, const EncodeOptions& options)
      : tokenizer_(tokenizer), options_(options), cache_(options.offsets ? nullptr : tokenizer.borrow_cache()) {}
  ~BpeEncoder() {
    if (cache_) tokenizer_.return_cache(std::move(cache_));
  }
  BpeEncoder(const BpeEncoder&) = delete;
  BpeEncoder& operator=(const BpeEncoder&) = delete;

  Encoding run(std::string_view text) {
    for (const TextPart& part : tokenizer_.added_.split(text, false, options_.parse_special)) {
      if (part.id)
        emit(*part.id, part.span);
      else
        encode_raw(text.substr(part.span.begin, part.span.end - part.span.begin), part.span.begin);
    }
    return std::move(result_);
  }

 private:
  void encode_raw(std::string_view text, size_t origin) {
    const auto composed = tokenizer_.nfc_ ? normalize_nfc(text) : std::nullopt;
    normalized_ = composed ? &*composed : nullptr;
    origin_ = origin;
    if (composed) text = composed->text();
    for (const TextPart& part : tokenizer_.added_.split(text, true, options_.parse_special)) {
      if (part.id)
        emit(*part.id, original(part.span));
      else
        run_steps(0, {text.substr(part.span.begin, part.span.end - part.span.begin), part.span.begin, 0});
    }
    normalized_ = nullptr;
  }

  void run_steps(size_t index, Piece piece) {
    if (index == tokenizer_.steps_.size()) return encode_word(piece);
    const PreTokenizeStep& step = tokenizer_.steps_[index];
    std::string with_space;
    if (step.prefix_space && !piece.text.starts_with(' ')) {
      with_space.append(" ").append(piece.text);
      piece = {with_space, piece.begin, piece.prefix + 1};
    }
    if (!step.split) return run_steps(index + 1, piece);
    for (size_t begin = 0; begin < piece.text.size();) {
      const size_t end = next_split(*step.split, piece.text, begin);
      run_steps(index + 1, piece.part(begin, end));
      begin = end;
    }
  }

  void encode_word(const Piece& piece) {
    const bool cached = cache_ && WordCache::can_hold(piece.text);
    if (cached) {
      const auto ids = cache_->find(piece.text);
      result_.ids.insert(result_.ids.end(), ids.begin(), ids.end());
      if (!ids.empty()) return;
    }
    tokens_.clear();
    tokenizer_.bpe_.encode_word(piece.text, tokens_);
    const size_t first = result_.ids.size();
    size_t position = 0;
    for (const BpeToken& token : tokens_) {
      emit(token.id,
           options_.offsets ? original({piece.place(position), piece.place(position + token.num_bytes)}) : TokenSpan{});
      position += token.num_bytes;
    }
    if (cached) cache_->insert(piece.text, std::span(result_.ids).subspan(first));
  }

  void emit(TokenId id, TokenSpan span) {
    result_.ids.push_back(id);
    if (options_.offsets) result_.offsets.push_back(span);
  }

  TokenSpan original(TokenSpan span) const {
    if (normalized_ != nullptr) span = {normalized_->original_begin(span.begin), normalized_->original_end(span.end)};
    return {span.begin + origin_, span.end + origin_};
  }

  const BpeTokenizer& tokenizer_;
  const EncodeOptions& options_;
  std::unique_ptr<WordCache> cache_;
  const NormalizedText* normalized_ = nullptr;  // of the part at hand, where that changed it
  size_t origin_ = 0;                           // where the part at hand begins
  std::vector<BpeToken> tokens_;
  Encoding result_;
};

BpeTokenizer::BpeTokenizer(Bpe bpe, BpeSettings settings)
    : bpe_(std::move(bpe)),
      nfc_(settings.nfc),
      steps_(std::move(settings.steps)),
      added_(std::move(settings.added_tokens), settings.nfc) {}

Encoding BpeTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return BpeEncoder(*this, options).run(text);
}

std::string BpeTokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  std::string text;
  for (const TokenId id : ids) {
    if (const AddedToken* added = added_.find(id)) {
      if (!added->special || !options.skip_special) text += added->content;
    } else if (bpe_.vocabulary().has(id)) {
      text += bpe_.vocabulary().bytes(id);
    } else {
      throw data_error(fmt::format("token id {} is not in the vocabulary of {} ids", id, vocab_size()),
                       "use the tokenizer that made the ids");
    }
  }
  return options.replace_invalid ? replace_invalid_utf8(text) : text;
}

int64_t BpeTokenizer::vocab_size() const {
  return std::max<int64_t>(bpe_.vocabulary().size(), int64_t{added_.largest_id()} + 1);
}

std::optional<std::string> BpeTokenizer::token(TokenId id) const {
  if (const AddedToken* added = added_.find(id)) return added->content;
  return bpe_.vocabulary().token(id);
}

std::optional<TokenId> BpeTokenizer::id(std::string_view token) const {
  if (const auto id = added_.id(token)) return id;
  return bpe_.vocabulary().id(token);
}

std::unique_ptr<WordCache> BpeTokenizer::borrow_cache() const {
  const std::lock_guard lock(caches_mutex_);
  if (idle_caches_.empty()) return std::make_unique<WordCache>();
  auto cache = std::move(idle_caches_.back());
  idle_caches_.pop_back();
  return cache;
}

void BpeTokenizer::return_cache(std::unique_ptr<WordCache> cache) const {
  const std::lock_guard lock(caches_mutex_);
  idle_caches_.push_back(std::move(cache));
}

}  // namespace gradmill
