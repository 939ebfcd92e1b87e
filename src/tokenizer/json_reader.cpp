// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/json_reader.h"

#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

constexpr size_t kMaxParts = 64;       // parts of a Sequence, over all levels
constexpr size_t kMaxShortText = 256;  // in bytes: limits how much a replacement can inflate a text

}  // namespace

const nlohmann::json& JsonReader::member(const json& object, const char* name) {
  static const json kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

const nlohmann::json& JsonReader::object(const json& parent, const char* name) const {
  const json& value = member(parent, name);
  if (!value.is_object()) throw bad(fmt::format("'{}' is missing or not an object", name));
  return value;
}

const nlohmann::json& JsonReader::array(const json& parent, const char* name) const {
  const json& value = member(parent, name);
  if (!value.is_array()) throw bad(fmt::format("'{}' is missing or not a list", name));
  return value;
}

bool JsonReader::flag(const json& parent, const char* name, bool fallback) const {
  const json& value = member(parent, name);
  if (value.is_null()) return fallback;
  if (!value.is_boolean()) throw bad(fmt::format("'{}' is neither true nor false", name));
  return value.get<bool>();
}

std::string JsonReader::text(const json& parent, const char* name) const {
  const json& value = member(parent, name);
  if (value.is_null()) return {};
  if (!value.is_string()) throw bad(fmt::format("'{}' is not a string", name));
  return value.get<std::string>();
}

std::string JsonReader::short_text(const json& parent, const char* name) const {
  std::string value = text(parent, name);
  if (value.size() > kMaxShortText) throw bad(fmt::format("'{}' has {} bytes", name, value.size()));
  return value;
}

std::string JsonReader::character(const json& parent, const char* name) const {
  std::string value = text(parent, name);
  if (value.empty() || read_utf8(value, 0).num_bytes != value.size()) {
    throw bad(fmt::format("'{}' is not one character", name));
  }
  return value;
}

uint64_t JsonReader::number(const json& parent, const char* name, uint64_t fallback, uint64_t max) const {
  const json& value = member(parent, name);
  if (value.is_null()) return fallback;
  if (!value.is_number_unsigned() || value.get<uint64_t>() > max) {
    throw bad(fmt::format("'{}' is not a number from 0 to {}", name, max));
  }
  return value.get<uint64_t>();
}

std::string JsonReader::type_of(const json& component, const char* what) const {
  if (!component.is_object()) throw bad(fmt::format("the {} is not an object", what));
  return text(component, "type");
}

std::vector<const nlohmann::json*> JsonReader::flatten(const json& component, const char* what,
                                                       const char* list) const {
  std::vector<const json*> parts;
  flatten_into(component, what, list, parts);
  if (parts.size() > kMaxParts) throw bad(fmt::format("the {} has more than {} parts", what, kMaxParts));
  return parts;
}

// The parser has already limited the depth.
void JsonReader::flatten_into(const json& component, const char* what, const char* list,
                              std::vector<const json*>& parts) const {
  if (component.is_null()) return;
  if (type_of(component, what) != "Sequence") return parts.push_back(&component);
  for (const json& part : array(component, list)) flatten_into(part, what, list, parts);
}

}  // namespace gradmill
