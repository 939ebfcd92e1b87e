// SPDX-License-Identifier: Apache-2.0
// Tokenizers from SentencePiece's own model files (tokenizer.model, spm.model), with the same ids as SentencePiece.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/pipeline_tokenizer.h"

namespace gradmill {

// `bytes` is the content of a model of type unigram or BPE. Control pieces (`<s>`) become special tokens: parse_special
// finds them in text, which SentencePiece itself never does. A model with [CLS] and [SEP] gets BERT's template and, if
// it has no [MASK], one after its pieces, as DeBERTa uses it. Other models have no template. Throws a data_error that
// starts with `where`.
std::unique_ptr<PipelineTokenizer> make_sentencepiece(std::string_view bytes, std::string_view where);

}  // namespace gradmill
