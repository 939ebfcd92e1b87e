// SPDX-License-Identifier: Apache-2.0
#include "data/records/source_list.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

#include "core/error.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKnown = "known endings are .jsonl .ndjson .csv .tsv .txt, each also with .gz or .zst";

std::string lower_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

std::optional<SourceFile> recognise(const fs::path& path) {
  SourceFile file{path, RecordFormat::jsonl, Compression::none};
  const std::string outer = lower_extension(path);
  if (outer == ".gz") file.compression = Compression::gzip;
  if (outer == ".zst") file.compression = Compression::zstd;
  const std::string inner = file.compression == Compression::none ? outer : lower_extension(path.stem());
  if (inner == ".jsonl" || inner == ".ndjson") return file;
  if (inner == ".csv") return file.format = RecordFormat::csv, file;
  if (inner == ".tsv") return file.format = RecordFormat::tsv, file;
  if (inner == ".txt") return file.format = RecordFormat::text, file;
  return std::nullopt;
}

// Quotes a path for a shell.
std::string quoted(const fs::path& path) {
  std::string text = "'";
  for (char character : path.string()) text += character == '\'' ? std::string("'\\''") : std::string(1, character);
  return text + "'";
}

// A command that converts a file of another kind to JSONL; empty if none is known.
std::string conversion(const fs::path& path) {
  const std::string extension = lower_extension(path);
  const std::string target = quoted(fs::path(path).replace_extension(".jsonl"));
  if (extension == ".parquet") {
    return fmt::format(
        "convert it: python3 -c \"import sys, pandas; pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], "
        "orient='records', lines=True)\" {} {}",
        quoted(path), target);
  }
  if (extension == ".arrow") {
    return fmt::format(
        "convert it: python3 -c \"import sys, datasets; datasets.Dataset.from_file(sys.argv[1]).to_json(sys.argv[2])\" "
        "{} {}",
        quoted(path), target);
  }
  if (extension == ".json") return fmt::format("convert it: jq -c '.[]' {} > {}", quoted(path), target);
  return "";
}

Error unknown_ending(const fs::path& path) {
  const std::string command = conversion(path);
  if (command.empty()) return data_error(fmt::format("'{}' is not a data file by its ending", path.string()), kKnown);
  return data_error(fmt::format("'{}': {} files are not read", path.string(), lower_extension(path)), command);
}

SourceFile known(const fs::path& path) {
  const std::optional<SourceFile> file = recognise(path);
  if (!file) throw unknown_ending(path);
  return *file;
}

void add_folder(std::vector<SourceFile>& files, const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> others;
  std::vector<SourceFile> tables, texts;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().filename().string().starts_with('.') || entry->is_directory(ignored)) continue;
    if (const std::optional<SourceFile> file = recognise(entry->path())) {
      (file->format == RecordFormat::text ? texts : tables).push_back(*file);
    } else if (!conversion(entry->path()).empty()) {
      others.push_back(entry->path());
    }
  }
  if (error) {
    throw data_error(fmt::format("cannot list '{}': {}", folder.string(), error.message()), "check its permissions");
  }
  const std::vector<SourceFile>& found = tables.empty() && others.empty() ? texts : tables;
  files.insert(files.end(), found.begin(), found.end());
  if (!found.empty()) return;
  if (!others.empty()) throw unknown_ending(*std::ranges::min_element(others));
  throw data_error(
      fmt::format("no data files in the folder '{}'", folder.string()),
      fmt::format("{}; for subfolders give a pattern such as '{}'", kKnown, (folder / "*/*.jsonl").string()));
}

void add_pattern(std::vector<SourceFile>& files, const std::string& pattern) {
  struct Matches : glob_t {
    Matches() : glob_t{} {}
    ~Matches() { ::globfree(this); }
  } matches;
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  if (status == GLOB_NOSPACE) throw std::bad_alloc();
  size_t found = 0;
  for (size_t i = 0; status == 0 && i < matches.gl_pathc; ++i) {
    std::error_code ignored;
    if (fs::is_directory(matches.gl_pathv[i], ignored)) continue;
    files.push_back(known(matches.gl_pathv[i]));
    ++found;
  }
  if (found == 0) throw data_error(fmt::format("no file matches '{}'", pattern), "check the pattern");
}

void add_entry(std::vector<SourceFile>& files, const std::string& entry) {
  std::error_code error;
  const fs::file_status status = fs::status(entry, error);
  if (fs::is_directory(status)) return add_folder(files, entry);
  if (fs::exists(status)) return files.push_back(known(entry));
  if (status.type() == fs::file_type::not_found && entry.find_first_of("*?[") != std::string::npos) {
    return add_pattern(files, entry);
  }
  throw data_error(fmt::format("cannot read '{}': {}", entry, error ? error.message() : "no such file or folder"),
                   "check the path");
}

}  // namespace

std::vector<SourceFile> list_sources(std::span<const std::string> entries) {
  if (entries.empty()) throw data_error("no data files are given", "name a file, a folder or a pattern");
  std::vector<SourceFile> files;
  for (const std::string& entry : entries) add_entry(files, entry);
  for (SourceFile& file : files) file.path = file.path.lexically_normal();
  std::ranges::sort(files, {}, [](const SourceFile& file) { return file.path.native(); });
  // std::ranges::unique is avoided because clang 14, which builds the fuzz targets, cannot compile its result type.
  const auto same = [](const SourceFile& a, const SourceFile& b) { return a.path == b.path; };
  files.erase(std::unique(files.begin(), files.end(), same), files.end());
  return files;
}

}  // namespace gradmill
