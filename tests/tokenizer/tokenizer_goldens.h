// SPDX-License-Identifier: Apache-2.0
// Reads the files of tools/make_tokenizer_goldens.py, which documents their contents.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/goldens.h"
#include "tokenizer/tokenizer_file.h"

namespace gradmill::test {

inline std::filesystem::path tokenizer_golden_path(const std::string& name) {
  return golden_path("tokenizer_" + name).replace_extension(".json");
}

inline nlohmann::json tokenizer_golden(const std::string& name) {
  std::ifstream file(tokenizer_golden_path(name), std::ios::binary);
  return nlohmann::json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

inline std::unique_ptr<PipelineTokenizer> golden_tokenizer(const std::string& name) {
  const std::filesystem::path path = tokenizer_golden_path(name);
  return parse_tokenizer_json(read_tokenizer_bytes(path), path.string());
}

// Hashes ids like the script does.
inline std::string hash_ids(const std::vector<int32_t>& ids) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const int32_t id : ids) hash = (hash ^ static_cast<uint64_t>(id)) * 0x100000001b3;
  return fmt::format("{:x}", hash & 0xffff);
}

}  // namespace gradmill::test
