// SPDX-License-Identifier: Apache-2.0
#include "model_files/gguf/gguf_metadata.h"

namespace gradmill {

void GgufMetadata::append_text(std::string& to, std::string_view text) {
  append<uint64_t>(to, text.size());
  to += text;
}

void GgufMetadata::begin(std::string_view key, GgufValueType type) {
  append_text(bytes_, key);
  append(bytes_, static_cast<uint32_t>(type));
  ++count_;
}

void GgufMetadata::begin_array(std::string_view key, GgufValueType type, size_t count) {
  begin(key, GgufValueType::array);
  append(bytes_, static_cast<uint32_t>(type));
  append<uint64_t>(bytes_, count);
}

void GgufMetadata::add_text(std::string_view key, std::string_view value) {
  begin(key, GgufValueType::string);
  append_text(bytes_, value);
}

void GgufMetadata::add_whole(std::string_view key, int64_t value) {
  begin(key, GgufValueType::uint32);
  append(bytes_, static_cast<uint32_t>(value));
}

void GgufMetadata::add_number(std::string_view key, double value) {
  begin(key, GgufValueType::float32);
  append(bytes_, static_cast<float>(value));
}

void GgufMetadata::add_flag(std::string_view key, bool value) {
  begin(key, GgufValueType::boolean);
  append<uint8_t>(bytes_, value);
}

void GgufMetadata::add_texts(std::string_view key, const std::vector<std::string>& values) {
  begin_array(key, GgufValueType::string, values.size());
  for (const std::string& value : values) append_text(bytes_, value);
}

void GgufMetadata::add_types(std::string_view key, const std::vector<int32_t>& values) {
  begin_array(key, GgufValueType::int32, values.size());
  for (const int32_t value : values) append(bytes_, value);
}

void GgufMetadata::add_scores(std::string_view key, const std::vector<float>& values) {
  begin_array(key, GgufValueType::float32, values.size());
  for (const float value : values) append(bytes_, value);
}

std::string GgufMetadata::header(uint64_t num_tensors) const {
  std::string header = "GGUF";
  append<uint32_t>(header, 3);
  append<uint64_t>(header, num_tensors);
  append<uint64_t>(header, count_);
  return header + bytes_;
}

}  // namespace gradmill
