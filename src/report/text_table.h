// SPDX-License-Identifier: Apache-2.0
// A table that is Markdown and reads well in a terminal too.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace gradmill {

// The first row is the header, and every row has as many cells. The first column is left-aligned, the others right.
std::string markdown_table(std::span<const std::vector<std::string>> rows);

}  // namespace gradmill
