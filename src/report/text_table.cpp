// SPDX-License-Identifier: Apache-2.0
#include "report/text_table.h"

#include <algorithm>

namespace gradmill {
namespace {

// Counts characters, not bytes: UTF-8 continuation bytes have the form 10xxxxxx.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string markdown_table(std::span<const std::vector<std::string>> rows) {
  std::vector<size_t> widths(rows.front().size(), 3);  // Markdown wants three dashes
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string& cell = rows[r][i];
      const std::string gap(widths[i] - width_of(cell), ' ');
      text += "| " + (i == 0 ? cell + gap : gap + cell) + " ";
    }
    text += "|\n";
    if (r > 0) continue;
    for (size_t i = 0; i < widths.size(); ++i) {
      text += "|" + (i == 0 ? std::string(widths[i] + 2, '-') : std::string(widths[i] + 1, '-') + ":");
    }
    text += "|\n";
  }
  return text;
}

}  // namespace gradmill
