// SPDX-License-Identifier: Apache-2.0
// Collects the metadata of a GGUF file. Private to the library.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "model_files/gguf/gguf_types.h"

namespace gradmill {

class GgufMetadata {
 public:
  void add_text(std::string_view key, std::string_view value);
  void add_whole(std::string_view key, int64_t value);  // as uint32
  void add_number(std::string_view key, double value);  // as float32
  void add_flag(std::string_view key, bool value);
  void add_texts(std::string_view key, const std::vector<std::string>& values);
  void add_types(std::string_view key, const std::vector<int32_t>& values);
  void add_scores(std::string_view key, const std::vector<float>& values);

  // The start of the file up to the tensor entries, for this many tensors.
  std::string header(uint64_t num_tensors) const;

  template <class T>
  static void append(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void append_text(std::string& to, std::string_view text);

 private:
  void begin(std::string_view key, GgufValueType type);
  void begin_array(std::string_view key, GgufValueType type, size_t count);

  std::string bytes_;
  uint64_t count_ = 0;
};

}  // namespace gradmill
