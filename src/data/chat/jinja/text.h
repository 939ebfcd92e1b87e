// SPDX-License-Identifier: Apache-2.0
// Python's operations on UTF-8 text. Lengths, positions and upper/lower case refer to code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradmill::jinja {

bool is_space(char32_t code_point);
bool is_valid_utf8(std::string_view text);

// The length in code points.
size_t text_length(std::string_view text);
// Each code point as a separate text.
std::vector<std::string_view> text_chars(std::string_view text);

// The code points [begin, end), which must be inside the text.
std::string_view text_between(std::string_view text, size_t begin, size_t end);

enum class Side { left, right, both };
// Removes the characters in `chars` from the ends; by default white space.
std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars = std::nullopt);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
// Makes the first letter of every word upper case and the others lower case.
std::string title(std::string_view text);
std::string capitalize(std::string_view text);
// Whether the text has letters with a case, and all of them are upper (or lower) case.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

// Replaces at most `count` occurrences; a negative count replaces all.
std::string replace(std::string_view text, std::string_view from, std::string_view to, int64_t count);
// Splits at the separator, at most `limit` times, from the left or the right. Without a separator, splits at white
// space.
std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit,
                                    Side from);
// Splits at line ends, which are dropped. Nothing follows the last line end.
std::vector<std::string_view> split_lines(std::string_view text);

// The text as a Python literal, with quotes.
std::string quoted(std::string_view text);
// The shortest text that reads back as the same number, with a point or an exponent.
std::string number_text(double number);

}  // namespace gradmill::jinja
