// SPDX-License-Identifier: Apache-2.0
// GGUF files (versions 2 and 3): metadata and tensors as stored. Nothing in a file is trusted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model_files/gguf/gguf_types.h"

namespace gradmill {

// An array of numbers or flags, as stored in the file.
struct GgufArray {
  GgufValueType type = GgufValueType::uint8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;

  // A number or flag; `index` must be below `count`.
  double number(uint64_t index) const;
};

using GgufStrings = std::vector<std::string_view>;
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray, GgufStrings>;

struct GgufTensor {
  std::string_view name;
  std::vector<int64_t> dims;  // C order: the last one is contiguous
  uint32_t type = 0;          // a GgmlType, or a type that is not supported
  std::span<const std::byte> bytes;
};

// A view of the bytes it was made from, which must outlive it.
class GgufFile {
 public:
  // `where` names the file in messages. Throws a data_error.
  GgufFile(std::span<const std::byte> bytes, std::string_view where);

  const std::string& where() const { return where_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufValue* find(std::string_view key) const;  // null if there is none

  // Typed values; without a fallback the key must exist. They throw a data_error that names file and key.
  std::string_view text(std::string_view key, std::optional<std::string_view> fallback = std::nullopt) const;
  int64_t whole(std::string_view key, std::optional<int64_t> fallback = std::nullopt) const;
  double number(std::string_view key, std::optional<double> fallback = std::nullopt) const;
  bool flag(std::string_view key, bool fallback) const;
  const GgufStrings* strings(std::string_view key) const;  // null if there is none
  const GgufArray* array(std::string_view key) const;

  Error bad(std::string_view what) const;
  // The error for a key whose value is not supported.
  Error refusal(std::string_view key, std::string_view supported) const;

 private:
  class Cursor;
  GgufValue read_value(Cursor& cursor, GgufValueType type) const;
  GgufValue read_array(Cursor& cursor) const;
  void read_tensors(Cursor& cursor, uint64_t count);
  void place_tensors(std::span<const std::byte> data);

  std::string where_;
  std::map<std::string_view, GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint64_t> offsets_;
};

}  // namespace gradmill
