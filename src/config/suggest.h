// SPDX-License-Identifier: Apache-2.0
// Guesses what a misspelt name was meant to be, and shows what the user wrote.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradmill {

// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that `word` most likely stands for, if one is close: few edits apart, or one contains the other.
// Differences in case, and '-' instead of '_', cost nothing.
std::optional<std::string> closest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'x'?", or "" if no candidate is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

std::string lower_case(std::string_view text);

// The text in single quotes, on one line and short enough for a message, whatever it contains.
std::string quoted_text(std::string_view text);

}  // namespace gradmill
