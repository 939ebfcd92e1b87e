// SPDX-License-Identifier: Apache-2.0
// Synonyms: a table of words and their replacements.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gradmill {

class Synonyms {
 public:
  Synonyms() = default;
  // Each line is a word, a tab, and its synonyms separated by commas. Empty lines and lines that begin with # are
  // ignored; lines for the same word are combined. Throws a data_error that names file and line for an invalid line or
  // bytes that are not UTF-8, and for more than 256 MiB of lines.
  static Synonyms from_file(const std::filesystem::path& path);

  // The synonyms of a word, ignoring the case of ASCII letters; empty if there are none.
  std::span<const std::string> find(std::string_view word) const;
  bool empty() const { return words_.empty(); }

 private:
  void add_line(std::string_view line, const std::string& where);

  std::unordered_map<std::string, std::vector<std::string>> words_;
};

}  // namespace gradmill
