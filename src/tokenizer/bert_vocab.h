// SPDX-License-Identifier: Apache-2.0
// BERT's vocab.txt: one token a line, its id the number of the line.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/pipeline_tokenizer.h"

namespace gradmill {

struct BertVocabOptions {
  bool lowercase = true;  // and without accents
};

// [UNK] must be there; [CLS] and [SEP], where they are, make the template. Throws a data_error that starts with
// `where`.
std::unique_ptr<PipelineTokenizer> make_bert_tokenizer(std::string_view vocab, std::string_view where,
                                                       const BertVocabOptions& options = {});

}  // namespace gradmill
