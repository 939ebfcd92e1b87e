// SPDX-License-Identifier: Apache-2.0
#include "config/suggest.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradmill {
namespace {

constexpr size_t kLongestWord = 64;  // the cost of a distance is the product of the lengths
constexpr size_t kShortestPart = 3;  // shorter parts match by chance
constexpr size_t kLongestInMessage = 80;

std::string normal_form(std::string_view text) {
  std::string normal = lower_case(text);
  std::replace(normal.begin(), normal.end(), '-', '_');
  return normal;
}

bool contains(std::string_view whole, std::string_view part) {
  return part.size() >= kShortestPart && whole.find(part) != std::string_view::npos;
}

// Our name for a value that other programs name differently; any other word unchanged.
std::string our_word(const std::string& theirs) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"gpu", "cuda"}, {"float32", "fp32"}, {"float16", "fp16"}, {"half", "fp16"}, {"bfloat16", "bf16"}};
  for (const auto& [word, ours] : kWords) {
    if (word == theirs) return std::string(ours);
  }
  return theirs;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table, because a swap looks back two rows.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string> closest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  const std::string plain = normal_form(word), ours = our_word(plain);
  // Without a candidate of our name, the user's word may still be close to another one.
  const std::string& wanted = std::ranges::find(candidates, ours) != candidates.end() ? ours : plain;
  std::optional<std::string> best;
  size_t best_distance = wanted.size() / 4 + 2;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(wanted, normal_form(candidate));
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (best) return best;
  for (const std::string& candidate : candidates) {
    const std::string normal = normal_form(candidate);
    if (!contains(normal, wanted) && !contains(wanted, normal)) continue;
    if (!best || candidate.size() < best->size()) best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto guess = closest(word, candidates);
  return guess ? fmt::format("; did you mean '{}'?", *guess) : "";
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string quoted_text(std::string_view text) {
  std::string shown(text.substr(0, kLongestInMessage));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return fmt::format("'{}{}'", shown, text.size() > kLongestInMessage ? "…" : "");
}

}  // namespace gradmill
