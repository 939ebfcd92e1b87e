// SPDX-License-Identifier: Apache-2.0
// GGUF's types of metadata, and of tensors with their blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/error.h"

namespace gradmill {

enum class GgufValueType : uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

enum class GgmlType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q8_0 = 8,
  q4_k = 12,
  q6_k = 14,
  f64 = 28,
  bf16 = 30,
};

// Values come in blocks of a fixed size; floats are blocks of one.
struct GgmlBlock {
  GgmlType type;
  std::string_view name;
  int64_t values = 1;
  size_t bytes = 4;
};

// Null for a type that is not supported.
const GgmlBlock* find_ggml_block(uint32_t type);

// Converts whole blocks to fp32.
void dequantise(GgmlType type, std::span<const std::byte> blocks, float* out);
// Converts whole blocks to Q8_0, with the rounding of llama.cpp.
void quantise_q8_0(std::span<const float> values, std::byte* out);

}  // namespace gradmill
