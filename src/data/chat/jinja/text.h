// SPDX-License-Identifier: Apache-2.0
// Python's text over UTF-8: lengths, places and cases count code points.
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

// In code points.
size_t text_length(std::string_view text);
// The code points of a text, each as a text.
std::vector<std::string_view> text_chars(std::string_view text);

// The code points [begin, end), which must lie inside.
std::string_view text_between(std::string_view text, size_t begin, size_t end);

enum class Side { left, right, both };
// Without what is in `chars` at the ends; nothing: white space.
std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars = std::nullopt);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
// The first letter of every word upper, the others lower.
std::string title(std::string_view text);
std::string capitalize(std::string_view text);
// Whether there are letters with a case, and all are upper, or all lower.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

// At most `count` times; a negative one: everywhere.
std::string replace(std::string_view text, std::string_view from, std::string_view to, int64_t count);
// The parts between separators, at most `limit` cuts, from the left or the right; nothing: between white space.
std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit,
                                    Side from);
// At line ends, which are left out; nothing behind the last one.
std::vector<std::string_view> split_lines(std::string_view text);

// A text as a literal of Python, with its quotes.
std::string quoted(std::string_view text);
// The shortest that reads back as the same number, with a point or an exponent.
std::string number_text(double number);

}  // namespace gradmill::jinja
