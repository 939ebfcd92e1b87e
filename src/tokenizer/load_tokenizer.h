// SPDX-License-Identifier: Apache-2.0
// A tokenizer from the files that models come with.
#pragma once

#include <filesystem>
#include <memory>

#include "tokenizer/tokenizer.h"

namespace gradmill {

// `path` is a tokenizer.json, a SentencePiece model (.model), a WordPiece vocab.txt, or a folder with one of them, in
// this order. Throws a data_error that names the file and what in it cannot be used.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace gradmill
