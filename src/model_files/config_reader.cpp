// SPDX-License-Identifier: Apache-2.0
#include "model_files/config_reader.h"

#include <algorithm>
#include <cmath>

#include "files/strict_json.h"

namespace gradmill {
namespace {

constexpr size_t kMostShown = 80;

// Strings from a file may contain anything, even invalid UTF-8.
std::string show(const nlohmann::json& value) {
  if (value.is_string()) return quote_for_message(value.get_ref<const std::string&>());
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "…";
  return text;
}

}  // namespace

ConfigReader::ConfigReader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) throw data_error(fmt::format("{}: not a JSON object", where_), "fetch the file again");
}

const nlohmann::json& ConfigReader::value(std::string_view key) const {
  static const json kNull;
  const auto found = object_.find(key);
  return found == object_.end() ? kNull : *found;
}

Error ConfigReader::refusal(std::string_view key, std::string_view supported) const {
  const std::string state = has(key) ? "is " + show(value(key)) : std::string("is not given");
  return data_error(fmt::format("{}: {} {}", where_, key, state), fmt::format("supported: {}", supported));
}

int64_t ConfigReader::size(std::string_view key, std::optional<int64_t> fallback, int64_t most) const {
  const json& found = value(key);
  const std::string range = fmt::format("a whole number from 1 to {}", most);
  if (found.is_null() && fallback) return *fallback;
  if (!found.is_number_unsigned()) throw refusal(key, range);
  const auto number = found.get<uint64_t>();
  if (number < 1 || number > static_cast<uint64_t>(most)) throw refusal(key, range);
  return static_cast<int64_t>(number);
}

int64_t ConfigReader::whole(std::string_view key, int64_t fallback, int64_t least) const {
  const json& found = value(key);
  if (found.is_null()) return fallback;
  const std::string range = fmt::format("a whole number from {} to {}", least, kMostSize);
  if (!found.is_number_integer()) throw refusal(key, range);
  if (found.is_number_unsigned() && found.get<uint64_t>() > static_cast<uint64_t>(kMostSize)) throw refusal(key, range);
  const auto number = found.get<int64_t>();
  if (number < least) throw refusal(key, range);
  return number;
}

double ConfigReader::number(std::string_view key, double fallback) const {
  const json& found = value(key);
  if (found.is_null()) return fallback;
  const double number = found.is_number() ? found.get<double>() : NAN;
  if (!(std::abs(number) <= 1e30)) throw refusal(key, "a number");
  return number;
}

float ConfigReader::positive(std::string_view key, double fallback) const {
  const double result = number(key, fallback);
  if (!(result >= 1e-30)) throw refusal(key, "a number above 0");
  return static_cast<float>(result);
}

float ConfigReader::probability(std::string_view key, double fallback) const {
  const double result = number(key, fallback);
  if (!(result >= 0 && result < 1)) throw refusal(key, "a probability of at least 0 and below 1");
  return static_cast<float>(result);
}

bool ConfigReader::flag(std::string_view key, bool fallback) const {
  const json& found = value(key);
  if (found.is_null()) return fallback;
  if (!found.is_boolean()) throw refusal(key, "true and false");
  return found.get<bool>();
}

std::string ConfigReader::text(std::string_view key, std::string_view fallback) const {
  const json& found = value(key);
  if (found.is_null()) return std::string(fallback);
  if (!found.is_string()) throw refusal(key, "a string");
  return found.get<std::string>();
}

std::optional<int64_t> ConfigReader::token(std::string_view key) const {
  const json& found = value(key);
  // Some files use -1 for "none".
  if (found.is_null() || found == -1) return std::nullopt;
  return whole(key, 0, 0);
}

void ConfigReader::require_flag(std::string_view key, bool needed, bool fallback) const {
  if (flag(key, fallback) != needed) throw refusal(key, needed ? "true" : "false");
}

void ConfigReader::require_absent(std::string_view key, std::string_view supported) const {
  if (has(key)) throw refusal(key, supported);
}

size_t ConfigReader::choice(std::string_view key, std::string_view fallback,
                            std::initializer_list<std::string_view> names) const {
  const std::string found = text(key, fallback);
  const auto place = std::find(names.begin(), names.end(), found);
  if (place != names.end()) return static_cast<size_t>(place - names.begin());
  std::string list;
  for (const std::string_view name : names) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  throw refusal(key, list);
}

}  // namespace gradmill
