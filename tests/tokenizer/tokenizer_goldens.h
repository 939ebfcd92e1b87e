// SPDX-License-Identifier: Apache-2.0
// The files of tools/make_tokenizer_goldens.py, which says what is in them.
#pragma once

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "support/goldens.h"

namespace gradmill::test {

inline std::filesystem::path tokenizer_golden_path(const std::string& name) {
  return golden_path("tokenizer_" + name).replace_extension(".json");
}

inline nlohmann::json tokenizer_golden(const std::string& name) {
  std::ifstream file(tokenizer_golden_path(name), std::ios::binary);
  return nlohmann::json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace gradmill::test
