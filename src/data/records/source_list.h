// SPDX-License-Identifier: Apache-2.0
// The files that a user's "data" means, and what each of them is.
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

// Each entry is a file, a folder (the files right in it whose ending is known, hidden ones left out; texts only where
// nothing else is, since a README.txt is no data) or a pattern with * ? [...]. An entry that exists as it stands is no
// pattern. The result is sorted by path, each file once. Endings: .jsonl .ndjson .csv .tsv .txt, each also with .gz or
// .zst. Throws a data_error for an entry without files, and for a file
// of another kind, with the way to convert it where there is one.
std::vector<SourceFile> list_sources(std::span<const std::string> entries);

}  // namespace gradmill
