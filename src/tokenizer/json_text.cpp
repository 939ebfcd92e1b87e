// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/json_text.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "core/error.h"

namespace gradmill {
namespace {

using nlohmann::json;
constexpr std::string_view kFix = "the file is damaged or not a tokenizer.json";

// The double that is nearest, for exponents from 0 to 308.
double power_of_ten(int64_t exponent) {
  const std::string text = fmt::format("1e{}", exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// As serde_json, and so Hugging Face's library, reads a number: digits beyond 64 bits are left out and the power of ten
// is rounded in. The last bit can be off, but Unigram compares sums of such numbers, so it must be off here too.
double read_real(std::string_view text, double exact) {
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
    // Every digit that is kept behind the point, and every one that is not kept before it, moves the point.
    if (full != fraction) exponent += full ? 1 : -1;
  }
  if (i < text.size()) {
    const std::string_view power = text.substr(i + (text.substr(i + 1).starts_with('+') ? 2 : 1));
    int64_t value = 0;
    if (std::from_chars(power.data(), power.data() + power.size(), value).ec != std::errc()) return exact;
    exponent += value;
  }
  auto result = static_cast<double>(digits);
  for (; exponent < -308 && result != 0; exponent += 308) result /= 1e308;
  if (exponent > 308 || exponent < -308) return exact;
  const double scale = power_of_ten(exponent < 0 ? -exponent : exponent);
  result = exponent < 0 ? result / scale : result * scale;
  return negative ? -result : result;
}

// Builds the document from the parser's events, so that a breach stops it before the document grows further.
class Builder : public nlohmann::detail::json_sax_dom_parser<json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<json>;
  Builder(json& document, std::string_view where, const JsonTextLimits& limits)
      : Base(document), where_(where), limits_(limits) {}

  bool null() { return count() && Base::null(); }
  bool boolean(bool value) { return count() && Base::boolean(value); }
  bool number_integer(json::number_integer_t value) { return count() && Base::number_integer(value); }
  bool number_unsigned(json::number_unsigned_t value) { return count() && Base::number_unsigned(value); }
  bool number_float(json::number_float_t value, const std::string& text) {
    return count() && Base::number_float(read_real(text, value), text);
  }
  bool string(std::string& value) { return count() && Base::string(value); }
  bool key(std::string& value) {
    if (!keys_.back().insert(value).second) {
      throw refusal(fmt::format("the key {} appears twice", quote_token(value)));
    }
    return count() && Base::key(value);
  }
  bool start_object(size_t size) {
    open();
    keys_.emplace_back();
    return Base::start_object(size);
  }
  bool end_object() {
    --depth_;
    keys_.pop_back();
    return Base::end_object();
  }
  bool start_array(size_t size) {
    open();
    return Base::start_array(size);
  }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    // The library's own message can quote the whole text.
    throw refusal(fmt::format("not valid JSON at byte {}", position));
  }

 private:
  bool count() {
    if (++num_values_ > limits_.max_values) throw refusal(fmt::format("more than {} values", limits_.max_values));
    return true;
  }
  void open() {
    count();
    if (++depth_ > limits_.max_depth) throw refusal(fmt::format("nested deeper than {} levels", limits_.max_depth));
  }
  Error refusal(const std::string& what) const { return data_error(fmt::format("{}: {}", where_, what), kFix); }

  std::string_view where_;
  JsonTextLimits limits_;
  size_t num_values_ = 0, depth_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // of each open object
};

}  // namespace

json parse_json_text(std::string_view text, std::string_view where, const JsonTextLimits& limits) {
  // nlohmann-json takes a NUL byte for the end of the input and would not look at what follows it.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw data_error(fmt::format("{}: not valid JSON at byte {}", where, nul), kFix);
  }
  json document;
  Builder builder(document, where, limits);
  json::sax_parse(text.begin(), text.end(), &builder);
  return document;
}

std::string quote_token(std::string_view text) {
  constexpr size_t kMaxShown = 80;
  std::string shown = "'";
  for (const char letter : text.substr(0, kMaxShown)) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x20 || code == 0x7f)
      shown += fmt::format("\\x{:02x}", code);
    else
      shown += letter;
  }
  return shown + (text.size() > kMaxShown ? "…'" : "'");
}

}  // namespace gradmill
