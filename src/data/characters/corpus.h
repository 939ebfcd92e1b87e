// SPDX-License-Identifier: Apache-2.0
// Corpora: data sets by name, or any text file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace gradmill {

struct CorpusOptions {
  // "self": this repository's sources and documents, built in.
  // "shakespeare": $GRADMILL_DATA/shakespeare/input.txt, then the user's cache.
  // Anything else is a path; "./self" is a file in the current folder.
  std::string dataset = "self";
  int64_t max_chars = 0;  // from the start; 0 = all
  bool download = false;  // a named data set that is not here may be fetched into the user's cache
};

struct Corpus {
  std::string name;
  std::string origin;  // path, or "built in"
  std::string text;    // valid UTF-8, not empty, without a byte order mark
};

// Throws a usage_error for bad options, a data_error for a text that is missing, cannot be read, or is not what it
// should be. Uses the network only with `download`, and only when the text is not here.
Corpus load_corpus(const CorpusOptions& options);

// The user's cache folder for what can be had again: $XDG_CACHE_HOME/gradmill, else ~/.cache/gradmill; nothing where
// there is no home. It need not exist.
std::optional<std::filesystem::path> user_cache();

}  // namespace gradmill
