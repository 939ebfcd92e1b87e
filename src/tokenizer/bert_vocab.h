// SPDX-License-Identifier: Apache-2.0
// Reads BERT's vocab.txt: one token per line; the id is the line number, counted from 0.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/pipeline_tokenizer.h"

namespace gradmill {

struct BertVocabOptions {
  bool lowercase = true;  // converts to lower case and strips accents
};

// [UNK] is required. [CLS] and [SEP], if present, make up the template. Throws a data_error that starts with `where`.
std::unique_ptr<PipelineTokenizer> make_bert_tokenizer(std::string_view vocab, std::string_view where,
                                                       const BertVocabOptions& options = {});

}  // namespace gradmill
