// SPDX-License-Identifier: Apache-2.0
#include "run/masked_data.h"

#include "core/error.h"
#include "core/rng.h"

namespace gradmill {
namespace {

constexpr float kMasked = 0.8f,
                kReplaced = 0.9f;  // draws below the first are masked, below the second replaced; the rest stays

}  // namespace

MaskRule mask_rule(const RunConfig& config, const RunTokenizer& run_tokenizer) {
  const Tokenizer& tokenizer = *run_tokenizer.tokenizer;
  MaskRule rule{.probability = config.data.mask_probability,
                .seed = static_cast<uint64_t>(config.training.seed),
                .vocab = tokenizer.vocab_size()};
  rule.kept.resize(static_cast<size_t>(rule.vocab), false);
  for (const char* name : {"[CLS]", "[SEP]", "[PAD]", "[UNK]", "<s>", "</s>", "<pad>", "<unk>"}) {
    if (const std::optional<TokenId> id = tokenizer.id(name)) rule.kept[static_cast<size_t>(*id)] = true;
  }
  for (const SequenceTemplate::Piece& piece : tokenizer.sequence_template().single()) {
    if (piece.kind == SequenceTemplate::Piece::Kind::token) rule.kept[static_cast<size_t>(piece.id)] = true;
  }
  for (const char* name : {"[MASK]", "<mask>"}) {
    const std::optional<TokenId> id = tokenizer.id(name);
    if (!id) continue;
    rule.mask = *id;
    rule.kept[static_cast<size_t>(*id)] = true;
    return rule;
  }
  throw usage_error("data.task=mask needs a token [MASK] or <mask>, which the tokenizer does not have",
                    "use the tokenizer of an encoder");
}

void hide_tokens(const MaskRule& rule, MaskUse use, int64_t step, MicroBatch& batch) {
  const auto end = static_cast<size_t>(batch.cu_seqlens.back());
  batch.num_targets = 0;
  for (size_t row = 0; row < batch.tokens.size(); ++row) {
    int32_t& token = batch.tokens[row];
    batch.targets[row] = kIgnoredTarget;
    if (row >= end || rule.kept[static_cast<size_t>(token)]) continue;
    const RandomBlock words = philox(rule.seed, {static_cast<uint32_t>(batch.token_base + static_cast<int64_t>(row)),
                                                 static_cast<uint32_t>(step), RngSite::kMask, uint32_t(use)});
    if (to_uniform(words[0]) >= static_cast<float>(rule.probability)) continue;
    batch.targets[row] = token;
    ++batch.num_targets;
    const float fate = to_uniform(words[1]);
    if (fate < kMasked) {
      token = rule.mask;
    } else if (fate < kReplaced) {
      token = static_cast<int32_t>(words[2] % static_cast<uint64_t>(rule.vocab));
    }
  }
}

RunData::UseBatch hiding_tokens(const MaskRule& rule, const RunData::UseBatch& use) {
  return [&rule, &use, index = int64_t{0}](const MicroBatch& batch) mutable {
    MicroBatch hidden = batch;
    hide_tokens(rule, MaskUse::validation, index++, hidden);
    return use(hidden);
  };
}

MaskedData::MaskedData(const RunConfig& config, std::unique_ptr<TextData> text)
    : RunData(text->name(), text->tokenizer()), text_(std::move(text)), rule_(mask_rule(config, tokenizer_)) {
  origin_ = text_->origin();
  hash_ = text_->hash();
}

std::string MaskedData::describe() const {
  return fmt::format("{}, {:g}% of the tokens to predict", text_->describe(), 100 * rule_.probability);
}

std::unique_ptr<BatchSource> MaskedData::open(const DataPosition& from, const CrewNote& note) const {
  return text_->open_edited(
      from, note, [this](int64_t step, MicroBatch& batch) { hide_tokens(rule_, MaskUse::train, step, batch); });
}

void MaskedData::visit_validation(int64_t max_tokens, const UseBatch& use) const {
  text_->visit_validation(max_tokens, hiding_tokens(rule_, use));
}

}  // namespace gradmill
