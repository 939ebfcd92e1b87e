// SPDX-License-Identifier: Apache-2.0
// A Markdown table that is also readable in a terminal.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace gradmill {

// The first row is the header; all rows have the same number of cells. The first column is left-aligned, the others
// right.
std::string markdown_table(std::span<const std::vector<std::string>> rows);

}  // namespace gradmill
