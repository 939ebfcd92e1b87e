// SPDX-License-Identifier: Apache-2.0
// Finds the data files that the user named, and their formats.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/records/byte_source.h"

namespace gradmill {

enum class RecordFormat { jsonl, csv, tsv, text };

struct SourceFile {
  std::filesystem::path path;
  RecordFormat format;
  Compression compression;
};

// Each entry is a file, a folder, or a pattern with * ? [...]. A folder stands for the files directly in it that have a
// known ending, except hidden ones; text files count only if there is nothing else, because a README.txt is not data.
// An entry that exists under its exact name is not a pattern. The result is sorted by path, and each file occurs once.
// Endings: .jsonl .ndjson .csv .tsv .txt, each also with .gz or .zst. Throws a data_error for an entry without files,
// and for a file of another kind; the message says how to convert it, if possible.
std::vector<SourceFile> list_sources(std::span<const std::string> entries);

}  // namespace gradmill
