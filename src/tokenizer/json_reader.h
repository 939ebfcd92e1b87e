// SPDX-License-Identifier: Apache-2.0
// Reads members of a JSON document, with a specific error message for each unexpected value. Private to the library.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace gradmill {

class JsonReader {
 public:
  using json = nlohmann::json;

  // `where` names the file in messages and must outlive the reader.
  explicit JsonReader(std::string_view where) : where_(where) {}
  std::string_view where() const { return where_; }

  // Errors for malformed input (bad) and for valid input that is not supported (unknown).
  Error bad(std::string_view what) const {
    return data_error(fmt::format("{}: {}", where_, what), "the file is damaged; fetch or make it again");
  }
  Error unknown(std::string_view what) const {
    return data_error(fmt::format("{}: {}", where_, what), "this kind of tokenizer cannot be read");
  }

  // Returns null if the member is missing, as the format defines.
  static const json& member(const json& object, const char* name);
  const json& object(const json& parent, const char* name) const;
  const json& array(const json& parent, const char* name) const;
  bool flag(const json& parent, const char* name, bool fallback = false) const;
  std::string text(const json& parent, const char* name) const;        // empty if there is none
  std::string short_text(const json& parent, const char* name) const;  // limited to the length that real files need
  std::string character(const json& parent, const char* name) const;   // exactly one character
  uint64_t number(const json& parent, const char* name, uint64_t fallback, uint64_t max) const;
  std::string type_of(const json& component, const char* what) const;
  // The parts of nested Sequences in order. `what` names the component, and `list` is the member with the parts.
  std::vector<const json*> flatten(const json& component, const char* what, const char* list) const;

 private:
  void flatten_into(const json& component, const char* what, const char* list, std::vector<const json*>& parts) const;

  std::string_view where_;
};

}  // namespace gradmill
