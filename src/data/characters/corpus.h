// SPDX-License-Identifier: Apache-2.0
// Corpora: data sets by name, or any text file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace gradmill {

struct CorpusOptions {
  // "self": this repository's sources and documents, built into the binary.
  // "shakespeare": $GRADMILL_DATA/shakespeare/input.txt, otherwise from the user's cache.
  // Anything else is a path; "./self" is a file in the current folder.
  std::string dataset = "self";
  int64_t max_chars = 0;  // number of characters to use from the start; 0: all
  bool download = false;  // download a named data set into the user's cache if it is missing
};

struct Corpus {
  std::string name;
  std::string origin;  // path, or "built in"
  std::string text;    // valid UTF-8, not empty, without a byte order mark
};

// Throws a usage_error for invalid options, and a data_error for a text that is missing, unreadable or not the expected
// one. Uses the network only with `download`, and only if the text is missing.
Corpus load_corpus(const CorpusOptions& options);

// The user's cache folder: $XDG_CACHE_HOME/gradmill, otherwise ~/.cache/gradmill, or nothing if there is no home
// folder. It may not exist yet.
std::optional<std::filesystem::path> user_cache();

}  // namespace gradmill
