// SPDX-License-Identifier: Apache-2.0
#include "run/char_data.h"

#include <algorithm>

#include "data/characters/char_vocab.h"
#include "data/characters/corpus.h"
#include "files/sha256.h"
#include "run/run_options.h"

namespace gradmill {

CharData::CharData(const RunConfig& config, const RunDataOptions& options)
    : RunData({}, {}), loading_(loader_options(config)), eval_seqs_(batch_shape(config, options.num_ranks).eval_seqs) {
  loading_.rank = options.rank;
  loading_.num_ranks = options.num_ranks;
  const Corpus corpus = load_corpus(corpus_options(config));
  name_ = corpus.name;
  origin_ = corpus.origin;
  hash_ = sha256_hex(std::as_bytes(std::span(corpus.text)));
  tokenizer_ = options.tokenizer != nullptr ? *options.tokenizer : char_run_tokenizer(corpus.text);
  tokens_ = split_tokens(CharVocab::from_text(tokenizer_.characters).encode(corpus.text),
                         config.data.validation_fraction, config.model.context);
}

std::string CharData::describe() const {
  const size_t train = tokens_.train.size(), validation = tokens_.validation.size();
  return fmt::format("{} ({}): {} characters, {} distinct; {} for training, {} for validation", name_, origin_,
                     train + validation, tokenizer_.tokenizer->vocab_size(), train, validation);
}

// An epoch is the number of steps that read as many tokens as the text has.
int64_t CharData::steps_per_epoch() const {
  return std::max<int64_t>(1, std::ssize(tokens_.train) / (loading_.batch_size * loading_.context));
}

std::unique_ptr<BatchSource> CharData::open(const DataPosition& from, const CrewNote& note) const {
  LoaderOptions options = loading_;
  options.note = note;
  return std::make_unique<StepSource<TrainLoader>>(tokens_.train, options, from.step);
}

void CharData::visit_validation(int64_t max_tokens, const UseBatch& use) const {
  for (const MicroBatch& batch : eval_batches(tokens_.validation, eval_seqs_, loading_.context, max_tokens)) {
    if (!use(batch)) return;
  }
}

std::vector<TokenId> CharData::prompt() const {
  const std::optional<TokenId> line_break = tokenizer_.tokenizer->id("\n");
  return {line_break.value_or(tokens_.train.front())};
}

}  // namespace gradmill
