// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pipeline_tokenizer.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

// Limit for the growth of a text during normalisation: a malicious file could double it at every step.
constexpr size_t kMaxGrowth = 64;

// A rewritten text on top of the text it was made from. `base` is where the latter begins in the layer below.
struct Layer {
  const NormalizedText* rewritten = nullptr;
  size_t base = 0;
  const Layer* below = nullptr;
};

struct Piece {
  std::string_view text;
  size_t begin = 0;              // position in the text of the layer
  const Layer* layer = nullptr;  // nullptr: the text passed to encode()
  bool first = false;            // the part begins the text and has not been cut
};

}  // namespace

// The state of one call of encode().
class PipelineEncoder {
 public:
  PipelineEncoder(const PipelineTokenizer& tokenizer, const EncodeOptions& options)
      : tokenizer_(tokenizer),
        parts_(tokenizer.parts_),
        options_(options),
        cache_(options.offsets ? nullptr : tokenizer.borrow_cache()) {}
  ~PipelineEncoder() {
    if (cache_) tokenizer_.return_cache(std::move(cache_));
  }
  PipelineEncoder(const PipelineEncoder&) = delete;
  PipelineEncoder& operator=(const PipelineEncoder&) = delete;

  Encoding run(std::string_view text) {
    if (!options_.offsets) result_.ids.reserve(text.size() / 4);
    for (const TextPart& part : tokenizer_.added_.split(text, false, options_.parse_special)) {
      if (part.id)
        emit(*part.id, part.span);
      else
        normalize(text.substr(part.span.begin, part.span.end - part.span.begin), part.span.begin);
    }
    return std::move(result_);
  }

 private:
  void normalize(std::string_view text, size_t origin) {
    std::vector<NormalizedText> texts;
    std::vector<Layer> layers;  // must not be moved, because layers point to each other
    texts.reserve(parts_.normalizers.size());
    layers.reserve(parts_.normalizers.size());
    const size_t max_size = kMaxGrowth * (text.size() + 64);
    const Layer* layer = nullptr;
    size_t base = origin;
    for (const auto& normalizer : parts_.normalizers) {
      Rewriter out(text, options_.offsets);
      normalizer->rewrite(out);
      auto rewritten = out.finish();
      if (!rewritten) continue;
      if (!options_.offsets) texts.clear();  // without offsets, the origin of the new text is not needed
      texts.push_back(std::move(*rewritten));
      text = texts.back().text();
      layers.push_back({&texts.back(), base, layer});
      layer = &layers.back();
      base = 0;
      check_growth(text, max_size);
    }
    split_added(text, base, layer, origin == 0);
  }

  static void check_growth(std::string_view text, size_t max_size) {
    if (text.size() > max_size) {
      throw data_error(fmt::format("the tokenizer's normalizers made a text of {} bytes", text.size()),
                       "the tokenizer file is damaged or not meant for use");
    }
  }

  void split_added(std::string_view text, size_t base, const Layer* layer, bool at_start) {
    if (!tokenizer_.added_.has(true)) {
      if (!text.empty()) run_steps(0, {text, base, layer, at_start});
      return;
    }
    for (const TextPart& part : tokenizer_.added_.split(text, true, options_.parse_special)) {
      const auto [begin, end] = part.span;
      if (part.id)
        emit(*part.id, original({begin + base, end + base}, layer));
      else
        run_steps(0, {text.substr(begin, end - begin), begin + base, layer, at_start && begin == 0});
    }
  }

  void run_steps(size_t index, const Piece& piece) {
    if (index == parts_.pre_tokenizers.size()) return encode_word(piece);
    const PreTokenizer& step = *parts_.pre_tokenizers[index];
    if (!step.rewrites()) return cut(index, piece);
    Rewriter out(piece.text, options_.offsets);
    step.rewrite(out, piece.first);
    const auto rewritten = out.finish();
    if (!rewritten) return cut(index, piece);
    const Layer layer{&*rewritten, piece.begin, piece.layer};
    cut(index, {rewritten->text(), 0, &layer, piece.first});
  }

  void cut(size_t index, const Piece& piece) {
    const PreTokenizer& step = *parts_.pre_tokenizers[index];
    for (size_t position = 0;;) {
      const auto [begin, end] = step.next(piece.text, position);
      if (begin == end) return;
      run_steps(index + 1,
                {piece.text.substr(begin, end - begin), piece.begin + begin, piece.layer, piece.first && begin == 0});
      position = end;
    }
  }

  void encode_word(const Piece& piece) {
    const bool cached = cache_ && WordCache::can_hold(piece.text);
    if (cached) {
      const auto ids = cache_->find(piece.text);
      result_.ids.insert(result_.ids.end(), ids.begin(), ids.end());
      if (!ids.empty()) return;
    }
    if (piece.text.size() > WordModel::kMaxWordBytes) {
      throw data_error(fmt::format("a word of {} bytes is too long to encode", piece.text.size()),
                       "cut the text into parts");
    }
    tokens_.clear();
    parts_.model->encode_word(piece.text, tokens_);
    const size_t first = result_.ids.size();
    size_t position = piece.begin;
    for (const WordToken& token : tokens_) {
      const size_t end = std::min(position + token.num_bytes, piece.begin + piece.text.size());
      emit(token.id, options_.offsets ? original({position, end}, piece.layer) : TokenSpan{});
      position = end;
    }
    if (cached) cache_->insert(piece.text, std::span(result_.ids).subspan(first));
  }

  void emit(TokenId id, TokenSpan span) {
    result_.ids.push_back(id);
    if (options_.offsets) result_.offsets.push_back(span);
  }

  // Follows the layers down to the original text. Without offsets the result is not used.
  TokenSpan original(TokenSpan span, const Layer* layer) const {
    for (; layer != nullptr && options_.offsets; layer = layer->below) {
      const size_t begin = layer->rewritten->original_begin(span.begin);
      // Inserted text has no position of its own: its end is its beginning, not the end of the text before it.
      const size_t end = span.begin == span.end ? begin : layer->rewritten->original_end(span.end);
      span = {begin + layer->base, end + layer->base};
    }
    return span;
  }

  const PipelineTokenizer& tokenizer_;
  const PipelineParts& parts_;
  const EncodeOptions& options_;
  std::unique_ptr<WordCache> cache_;
  std::vector<WordToken> tokens_;
  Encoding result_;
};

PipelineTokenizer::PipelineTokenizer(PipelineParts parts)
    : parts_(std::move(parts)), added_(std::move(parts_.added_tokens), [this](std::string_view text) {
        return normalize_all(parts_.normalizers, text);
      }) {}

Encoding PipelineTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return PipelineEncoder(*this, options).run(text);
}

std::optional<std::string_view> PipelineTokenizer::decoded_token(TokenId id, bool skip_special) const {
  if (const AddedToken* added = added_.find(id)) {
    if (added->special && skip_special) return std::nullopt;
    return added->decoded;
  }
  if (!parts_.model->vocabulary().has(id)) {
    throw data_error(fmt::format("token id {} is not in the vocabulary of {} ids", id, vocab_size()),
                     "use the tokenizer that made the ids");
  }
  return parts_.model->vocabulary().bytes(id);
}

std::string PipelineTokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  std::string text;
  if (parts_.decoders.empty()) {
    for (const TokenId id : ids) text += decoded_token(id, options.skip_special).value_or("");
    return options.replace_invalid ? replace_invalid_utf8(text) : text;
  }
  std::vector<std::string> tokens;
  for (const TokenId id : ids) {
    if (const auto token = decoded_token(id, options.skip_special)) tokens.emplace_back(*token);
  }
  for (const auto& decoder : parts_.decoders) decoder->apply(tokens, options.replace_invalid);
  for (const std::string& token : tokens) text += token;
  return text;
}

int64_t PipelineTokenizer::vocab_size() const {
  return std::max<int64_t>(parts_.model->vocabulary().size(), int64_t{added_.largest_id()} + 1);
}

std::optional<std::string> PipelineTokenizer::token(TokenId id) const {
  if (const AddedToken* added = added_.find(id)) return added->content;
  return parts_.model->vocabulary().token(id);
}

std::optional<TokenId> PipelineTokenizer::id(std::string_view token) const {
  if (const auto id = added_.id(token)) return id;
  return parts_.model->vocabulary().id(token);
}

std::unique_ptr<WordCache> PipelineTokenizer::borrow_cache() const {
  const std::lock_guard lock(caches_mutex_);
  if (idle_caches_.empty()) return std::make_unique<WordCache>();
  auto cache = std::move(idle_caches_.back());
  idle_caches_.pop_back();
  return cache;
}

void PipelineTokenizer::return_cache(std::unique_ptr<WordCache> cache) const {
  const std::lock_guard lock(caches_mutex_);
  idle_caches_.push_back(std::move(cache));
}

}  // namespace gradmill
