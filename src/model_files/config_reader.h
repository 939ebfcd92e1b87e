// SPDX-License-Identifier: Apache-2.0
// Reads keys of a config.json, with a message for each value that cannot be used. Private to the library.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace gradmill {

// A missing key and a key with null are the same. Numbers must be within bounds that no real model reaches, so that
// products of a few of them cannot overflow.
class ConfigReader {
 public:
  using json = nlohmann::json;

  // `object` must outlive the reader.
  ConfigReader(const json& object, std::string where);

  const std::string& where() const { return where_; }
  const json& object() const { return object_; }
  const json& value(std::string_view key) const;  // null if there is none
  bool has(std::string_view key) const { return !value(key).is_null(); }

  // At least 1, at most `most`. Without a fallback the key must be there.
  int64_t size(std::string_view key, std::optional<int64_t> fallback, int64_t most = kMostSize) const;
  // Any whole number from `least`.
  int64_t whole(std::string_view key, int64_t fallback, int64_t least) const;
  double number(std::string_view key, double fallback) const;
  // Above 0.
  float positive(std::string_view key, double fallback) const;
  // From 0, below 1.
  float probability(std::string_view key, double fallback) const;
  bool flag(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  std::optional<int64_t> token(std::string_view key) const;

  // Refuses any value but this one. A missing key counts as this value unless another fallback is given.
  void require_flag(std::string_view key, bool needed, bool fallback) const;
  void require_absent(std::string_view key, std::string_view supported) const;
  // The index of the value among these names.
  size_t choice(std::string_view key, std::string_view fallback, std::initializer_list<std::string_view> names) const;

  // "FILE: KEY is VALUE; supported: …"
  Error refusal(std::string_view key, std::string_view supported) const;

  static constexpr int64_t kMostSize = int64_t{1} << 24;
  static constexpr int64_t kMostLayers = 4096;

 private:
  const json& object_;
  std::string where_;
};

}  // namespace gradmill
