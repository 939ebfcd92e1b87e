// SPDX-License-Identifier: Apache-2.0
// Loads a tokenizer from the files that come with a model.
#pragma once

#include <filesystem>
#include <memory>

#include "tokenizer/tokenizer.h"

namespace gradmill {

// `path` is a tokenizer.json, a SentencePiece model (.model), a WordPiece vocab.txt, or a folder that contains one of
// these, searched in this order. Throws a data_error that names the file and the problem.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace gradmill
