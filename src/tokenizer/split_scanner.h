// SPDX-License-Identifier: Apache-2.0
// The split patterns of byte-level BPE, each implemented as a scanner. It takes linear time for any text, while a regex
// engine may backtrack.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace gradmill {

enum class SplitKind {
  gpt2,
  cl100k,  // also Llama 3: contractions in any case, one odd character before letters, numbers in groups of three
  qwen2,   // cl100k with single digits
  digits,  // each number character separately
  digit_runs,
};

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kCl100kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The scanner for a pattern that is spelled exactly like this in files.
std::optional<SplitKind> split_kind_of_pattern(std::string_view pattern);

// The end of the piece that starts at `begin`. The pieces of a text cover it without gaps.
size_t next_split(SplitKind kind, std::string_view text, size_t begin);

}  // namespace gradmill
