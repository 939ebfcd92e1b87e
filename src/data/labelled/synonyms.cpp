// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/synonyms.h"

#include <algorithm>

#include "core/error.h"
#include "data/records/line_reader.h"
#include "core/utf8.h"
#include "data/labelled/words.h"

namespace gradmill {
namespace {

constexpr int64_t kLongestLine = int64_t{1} << 20;
constexpr int64_t kLargestFile = int64_t{256} << 20;

std::string_view trim(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::optional<CodePoint> code_point = decode_utf8(text);
    if (!code_point) return false;
    text.remove_prefix(code_point->num_bytes);
  }
  return true;
}

}  // namespace

Synonyms Synonyms::from_file(const std::filesystem::path& path) {
  Synonyms synonyms;
  int64_t num_bytes = 0;
  LineReader lines(open_bytes(path, Compression::none), kLongestLine);
  for (TextLine line; lines.next(line);) {
    const std::string where = fmt::format("'{}' line {}", path.string(), line.number);
    num_bytes += std::ssize(line.text);
    if (line.too_long || num_bytes > kLargestFile) {
      throw data_error(fmt::format("{}: too long for a table of synonyms", where), "keep the words that occur");
    }
    if (!is_utf8(line.text)) throw data_error(where + ": not valid UTF-8", "convert the file");
    const std::string_view text = trim(line.text);
    if (!text.empty() && !text.starts_with('#')) synonyms.add_line(line.text, where);
  }
  return synonyms;
}

void Synonyms::add_line(std::string_view line, const std::string& where) {
  constexpr std::string_view kForm = "write a word, a tab, and its synonyms with commas between them";
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos) throw data_error(where + ": no tab after a word", kForm);
  const std::string_view word = trim(line.substr(0, tab));
  if (word.empty()) throw data_error(where + ": no word before the tab", kForm);
  std::vector<std::string>& list = words_[ascii_lower(word)];
  for (std::string_view rest = line.substr(tab + 1); !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view synonym = trim(rest.substr(0, comma));
    if (synonym.empty()) throw data_error(where + ": an empty synonym", kForm);
    list.emplace_back(synonym);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (list.empty()) throw data_error(where + ": no synonym after the tab", kForm);
}

std::span<const std::string> Synonyms::find(std::string_view word) const {
  const auto at = words_.find(ascii_lower(word));
  return at == words_.end() ? std::span<const std::string>() : at->second;
}

}  // namespace gradmill
