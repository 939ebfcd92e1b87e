// SPDX-License-Identifier: Apache-2.0
// Adds strict rules to nlohmann-json, which silently keeps the last of two equal keys and sets no limits.
#include "files/strict_json.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "core/error.h"

namespace gradmill {
namespace {

using nlohmann::json;

// Builds the document from the parser's events, so that a violation stops the parse before the document grows further.
class Builder : public nlohmann::detail::json_sax_dom_parser<json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<json>;
  Builder(json& document, std::string_view where, const JsonRules& rules)
      : Base(document), where_(where), rules_(rules) {}

  bool null() { return count() && Base::null(); }
  bool boolean(bool value) { return count() && Base::boolean(value); }
  bool number_integer(json::number_integer_t value) { return count() && Base::number_integer(value); }
  bool number_unsigned(json::number_unsigned_t value) { return count() && Base::number_unsigned(value); }
  bool number_float(json::number_float_t value, const std::string& text) {
    return count() && Base::number_float(rules_.read_real ? rules_.read_real(text, value) : value, text);
  }
  bool string(std::string& value) { return count() && Base::string(value); }
  bool key(std::string& value) {
    if (!keys_.back().insert(value).second) {
      throw refusal(fmt::format("the key {} appears twice", quote_for_message(value)));
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
    // The library's own message may quote the whole text.
    throw refusal(fmt::format("not valid JSON at byte {}", position));
  }

 private:
  bool count() {
    if (++num_values_ > rules_.max_values) throw refusal(fmt::format("more than {} values", rules_.max_values));
    return true;
  }
  void open() {
    count();
    if (++depth_ > rules_.max_depth) throw refusal(fmt::format("nested deeper than {} levels", rules_.max_depth));
  }
  Error refusal(const std::string& what) const { return data_error(fmt::format("{}: {}", where_, what), rules_.fix); }

  std::string_view where_;
  JsonRules rules_;
  size_t num_values_ = 0, depth_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // the keys of each open object
};

}  // namespace

json parse_strict_json(std::string_view text, std::string_view where, const JsonRules& rules) {
  // nlohmann-json takes a NUL byte for the end of the input and ignores what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw data_error(fmt::format("{}: not valid JSON at byte {}", where, nul), rules.fix);
  }
  json document;
  Builder builder(document, where, rules);
  json::sax_parse(text.begin(), text.end(), &builder);
  return document;
}

std::string quote_for_message(std::string_view text) {
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
