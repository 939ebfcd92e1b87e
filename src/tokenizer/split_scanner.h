// SPDX-License-Identifier: Apache-2.0
// The split patterns of byte-level BPE, each as a scanner of its own: linear time for any text, where a regex engine
// may backtrack.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace gradmill {

enum class SplitKind {
  gpt2,
  cl100k,  // Llama 3 too: contractions in any case, one odd character before letters, numbers by three
  qwen2,   // cl100k with single digits
  digits,  // each number character alone
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

// The scanner for a pattern as a file spells it, to the letter.
std::optional<SplitKind> split_kind_of_pattern(std::string_view pattern);

// Where the piece that starts at `begin` ends. The pieces of a text cover it without gaps.
size_t next_split(SplitKind kind, std::string_view text, size_t begin);

}  // namespace gradmill
