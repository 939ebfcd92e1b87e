// SPDX-License-Identifier: Apache-2.0
// The components of a tokenizer.json, each from its JSON. Private to the library.
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

// All throw data_errors, as JsonReader makes them.
NormalizerList read_normalizers(const JsonReader& reader, const nlohmann::json& normalizer);

// `raw_bytes`: the model reads bytes and not their spelling, so a last ByteLevel does not spell.
PreTokenizerList read_pre_tokenizers(const JsonReader& reader, const nlohmann::json& pre_tokenizer, bool raw_bytes);

// A list of decode steps, never empty: without a decoder tokens are joined by spaces.
DecoderList read_decoders(const JsonReader& reader, const nlohmann::json& decoder);

std::unique_ptr<const WordModel> read_model(const JsonReader& reader, const nlohmann::json& model, bool raw_bytes);

std::vector<AddedToken> read_added_tokens(const JsonReader& reader, const nlohmann::json& list,
                                          const Vocabulary& vocabulary);

// Ids of template tokens must be below `vocab_size`.
SequenceTemplate read_template(const JsonReader& reader, const nlohmann::json& post_processor, int64_t vocab_size);

// `pattern` of Split and Replace: {"String": ..} or {"Regex": ..}.
TextPattern read_pattern(const JsonReader& reader, const nlohmann::json& component);

}  // namespace gradmill
