// SPDX-License-Identifier: Apache-2.0
// Synonyms: words and others that may stand for them.
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
  // A line is a word, a tab, and its synonyms with commas between them. Empty lines and lines that begin with # are
  // passed over; lines of the same word add up. Throws a data_error that names file and line for one of another form,
  // for bytes that are not UTF-8, and for more than 256 MiB of lines.
  static Synonyms from_file(const std::filesystem::path& path);

  // Of a word in any case (of ASCII letters); empty: none.
  std::span<const std::string> find(std::string_view word) const;
  bool empty() const { return words_.empty(); }

 private:
  void add_line(std::string_view line, const std::string& where);

  std::unordered_map<std::string, std::vector<std::string>> words_;
};

}  // namespace gradmill
