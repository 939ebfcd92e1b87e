// SPDX-License-Identifier: Apache-2.0
// Tokenizers from SentencePiece's own model files (tokenizer.model, spm.model), with the ids that SentencePiece gives.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/pipeline_tokenizer.h"

namespace gradmill {

// `bytes` is the content of a model of type unigram or BPE. Control pieces (`<s>`) are special tokens: parse_special
// finds them in text, which SentencePiece itself never does. A model with [CLS] and [SEP] has BERT's template, and a
// [MASK] behind its pieces where it lacks one, as DeBERTa uses it; others have none.
// Throws a data_error that starts with `where`.
std::unique_ptr<PipelineTokenizer> make_sentencepiece(std::string_view bytes, std::string_view where);

}  // namespace gradmill
