// SPDX-License-Identifier: Apache-2.0
#include "train/run_data.h"

#include "data/sha256.h"
#include "train/run_options.h"

namespace gradmill {

RunData load_run_data(const RunConfig& config, const CharVocab* vocab) {
  const Corpus corpus = load_corpus(corpus_options(config));
  RunData data{corpus.name,
               corpus.origin,
               sha256_hex(std::as_bytes(std::span(corpus.text))),
               vocab ? *vocab : CharVocab::from_text(corpus.text),
               {}};
  data.tokens = split_tokens(data.vocab.encode(corpus.text), config.data.validation_fraction, config.model.context);
  return data;
}

}  // namespace gradmill
