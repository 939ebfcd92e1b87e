// SPDX-License-Identifier: Apache-2.0
// Readers for the components of a tokenizer.json. Private to the library.
#pragma once

#include <memory>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/decoder.h"
#include "tokenizer/json_reader.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/sequence_template.h"
#include "tokenizer/word_model.h"

namespace gradmill {

// All functions throw the data_errors of JsonReader.
NormalizerList read_normalizers(const JsonReader& reader, const nlohmann::json& normalizer);

// `raw_bytes`: the model reads bytes, not their spelling, so a final ByteLevel is not applied.
PreTokenizerList read_pre_tokenizers(const JsonReader& reader, const nlohmann::json& pre_tokenizer, bool raw_bytes);

// A list of decode steps, never empty: if the file has no decoder, tokens are joined by spaces.
DecoderList read_decoders(const JsonReader& reader, const nlohmann::json& decoder);

std::unique_ptr<const WordModel> read_model(const JsonReader& reader, const nlohmann::json& model, bool raw_bytes);

std::vector<AddedToken> read_added_tokens(const JsonReader& reader, const nlohmann::json& list,
                                          const Vocabulary& vocabulary);

// The ids of template tokens must be below `vocab_size`.
SequenceTemplate read_template(const JsonReader& reader, const nlohmann::json& post_processor, int64_t vocab_size);

// Reads the `pattern` of Split and Replace: {"String": ..} or {"Regex": ..}.
TextPattern read_pattern(const JsonReader& reader, const nlohmann::json& component);

}  // namespace gradmill
