// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/json_text.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace gradmill {
namespace {

// The nearest double, for exponents from 0 to 308.
double power_of_ten(int64_t exponent) {
  const std::string text = fmt::format("1e{}", exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Parses a number like serde_json, which Hugging Face's library uses: digits beyond 64 bits are ignored, and the power
// of ten is applied with a second rounding. The last bit can be wrong, but Unigram compares sums of such numbers, so it
// must be wrong here as well.
double read_real(std::string_view text, double nearest) {
  const bool negative = text.starts_with('-');
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool full = false, fraction = false;
  size_t i = negative ? 1 : 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[i] - '0');
    full = full || digits > (UINT64_MAX - digit) / 10;
    if (!full) digits = digits * 10 + digit;
    // Each kept digit after the point, and each ignored digit before it, changes the exponent.
    if (full != fraction) exponent += full ? 1 : -1;
  }
  if (i < text.size()) {
    const std::string_view power = text.substr(i + (text.substr(i + 1).starts_with('+') ? 2 : 1));
    int64_t value = 0;
    if (std::from_chars(power.data(), power.data() + power.size(), value).ec != std::errc()) return nearest;
    exponent += value;
  }
  auto result = static_cast<double>(digits);
  for (; exponent < -308 && result != 0; exponent += 308) result /= 1e308;
  if (exponent > 308 || exponent < -308) return nearest;
  const double scale = power_of_ten(exponent < 0 ? -exponent : exponent);
  result = exponent < 0 ? result / scale : result * scale;
  return negative ? -result : result;
}

}  // namespace

nlohmann::json parse_json_text(std::string_view text, std::string_view where) {
  return parse_strict_json(text, where,
                           {.max_depth = 32,
                            // A vocabulary of 256K with its merges has about 2 million values.
                            .max_values = 16'000'000,
                            .fix = "the file is damaged or not a tokenizer.json",
                            .read_real = read_real});
}

}  // namespace gradmill
