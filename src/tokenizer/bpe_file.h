// SPDX-License-Identifier: Apache-2.0
// tokenizer.json of byte-level BPE: GPT-2, Llama 3, Qwen 2 and 3, and what BpeTrainer writes.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "tokenizer/bpe_tokenizer.h"

namespace gradmill {

// Throws a data_error that names the file and what is wrong with it: what is malformed, and what this reader does not
// know (another model, pattern, normaliser or decoder), since guessing would give other ids. Its post-processor is not
// read: encoding adds no tokens.
std::unique_ptr<BpeTokenizer> read_bpe_file(const std::filesystem::path& path);

// The same for the text of such a file; `where` names it in messages.
std::unique_ptr<BpeTokenizer> parse_bpe_file(std::string_view text, std::string_view where);

}  // namespace gradmill
