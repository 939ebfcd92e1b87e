// SPDX-License-Identifier: Apache-2.0
#include "model_files/float_rows.h"

#include <array>
#include <cassert>
#include <cstring>
#include <vector>

namespace gradmill {
namespace {

template <class Stored, class ToFloat>
void widen_as(std::span<const std::byte> bytes, float* out, ToFloat to_float) {
  const size_t count = bytes.size() / sizeof(Stored);
  for (size_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    out[i] = to_float(value);
  }
}

// A table of all values: a look-up is several times faster than the conversion.
const std::vector<float>& fp16_values() {
  static const std::vector<float> values = [] {
    std::vector<float> table(1 << 16);
    for (uint32_t bits = 0; bits < table.size(); ++bits) table[bits] = fp16_bits_to_float(static_cast<uint16_t>(bits));
    return table;
  }();
  return values;
}

}  // namespace

std::optional<FloatType> float_type(std::string_view name) {
  if (name == "F64") return FloatType::f64;
  if (name == "F32") return FloatType::f32;
  if (name == "F16") return FloatType::f16;
  if (name == "BF16") return FloatType::bf16;
  return std::nullopt;
}

size_t bytes_of(FloatType type) { return type == FloatType::f64 ? 8 : type == FloatType::f32 ? 4 : 2; }

DType exact_dtype(FloatType type) {
  return type == FloatType::f16 ? DType::fp16 : type == FloatType::bf16 ? DType::bf16 : DType::fp32;
}

void widen(FloatType type, std::span<const std::byte> bytes, float* out) {
  switch (type) {
    case FloatType::f64:
      // Values beyond the range of fp32 become infinite, and infinite values are refused later.
      return widen_as<double>(bytes, out, [](double value) { return static_cast<float>(value); });
    case FloatType::f32:
      if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
      return;
    case FloatType::f16: {
      const std::vector<float>& values = fp16_values();
      return widen_as<uint16_t>(bytes, out, [&](uint16_t bits) { return values[bits]; });
    }
    case FloatType::bf16:
      return widen_as<uint16_t>(bytes, out, [](uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); });
  }
}

void narrow(std::span<const float> values, DType dtype, std::byte* out) {
  if (values.empty()) return;
  if (dtype == DType::fp32) {
    std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  assert(dtype == DType::bf16 || dtype == DType::fp16);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = dtype == DType::bf16 ? float_to_bf16_bits(values[i]) : float_to_fp16_bits(values[i]);
    std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace gradmill
