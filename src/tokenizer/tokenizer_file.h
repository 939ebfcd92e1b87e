// SPDX-License-Identifier: Apache-2.0
// tokenizer.json, the format of Hugging Face's library.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/pipeline_tokenizer.h"

namespace gradmill {

// Throws a data_error that names the file and what is wrong with it: what is malformed, and what this reader does not
// know, since guessing would give other ids. The file's own truncation and padding are not read.
std::unique_ptr<PipelineTokenizer> read_tokenizer_json(const std::filesystem::path& path);

// The same for the text of such a file; `where` names it in messages.
std::unique_ptr<PipelineTokenizer> parse_tokenizer_json(std::string_view text, std::string_view where);

// All of a file that belongs to a tokenizer. Throws a data_error where it cannot be read or is implausibly large.
std::string read_tokenizer_bytes(const std::filesystem::path& path);

}  // namespace gradmill
