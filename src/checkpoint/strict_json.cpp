// SPDX-License-Identifier: Apache-2.0
// The strict rules on top of nlohmann-json, which keeps the last of two equal keys and sets no limits.
#include "checkpoint/strict_json.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "core/error.h"

namespace gradmill {
namespace {

using nlohmann::json;
constexpr std::string_view kFix = "the file is damaged or not what it claims to be";

// Follows the parser and throws at the first breach, before the document grows further.
class Guard {
 public:
  Guard(std::string_view where, const JsonLimits& limits) : where_(where), limits_(limits) {}

  void see(int depth, json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::object_end || event == Event::array_end) return;
    if (++num_values_ > limits_.max_values) throw refusal(fmt::format("more than {} values", limits_.max_values));
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::key && !keys_.back().insert(parsed.get_ref<const std::string&>()).second) {
      throw refusal(fmt::format("the key {} appears twice", quote_for_message(parsed.get_ref<const std::string&>())));
    }
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && static_cast<size_t>(depth) >= limits_.max_depth) {
      throw refusal(fmt::format("nested deeper than {} levels", limits_.max_depth));
    }
  }

 private:
  Error refusal(const std::string& what) const { return data_error(fmt::format("{}: {}", where_, what), kFix); }

  std::string_view where_;
  JsonLimits limits_;
  size_t num_values_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // of each open object
};

}  // namespace

json parse_strict_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  // nlohmann-json takes a NUL byte for the end of the input and would not look at what follows it.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw data_error(fmt::format("{}: not valid JSON at byte {}", where, nul), kFix);
  }
  Guard guard(where, limits);
  const auto callback = [&guard](int depth, json::parse_event_t event, json& parsed) {
    guard.see(depth, event, parsed);
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), callback);
  } catch (const json::parse_error& error) {
    // The library's own message can quote the whole text.
    throw data_error(fmt::format("{}: not valid JSON at byte {}", where, error.byte), kFix);
  } catch (const json::exception&) {
    throw data_error(fmt::format("{}: not valid JSON", where), kFix);
  }
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
