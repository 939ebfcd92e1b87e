// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer.json, the format of Hugging Face's library.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/pipeline_tokenizer.h"

namespace gradmill {

// Reads the text of a file; `where` names it in messages. Throws a data_error that names the problem, for malformed
// files and also for unknown components, because guessing would give different ids. Ignores the file's truncation and
// padding settings.
std::unique_ptr<PipelineTokenizer> parse_tokenizer_json(std::string_view text, std::string_view where);

// Reads a whole tokenizer file. Throws a data_error if it cannot be read or is implausibly large.
std::string read_tokenizer_bytes(const std::filesystem::path& path);

}  // namespace gradmill
