// SPDX-License-Identifier: Apache-2.0
// Converts values between the types of files and fp32.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "core/dtype.h"

namespace gradmill {

enum class FloatType : uint8_t { f64, f32, f16, bf16 };

// The type with this name in safetensors.
std::optional<FloatType> float_type(std::string_view name);
size_t bytes_of(FloatType type);
// The type that holds its values exactly; f64 is rounded to fp32.
DType exact_dtype(FloatType type);

// Bytes need not be aligned.
void widen(FloatType type, std::span<const std::byte> bytes, float* out);
// To fp32, bf16 or fp16, rounding to nearest even.
void narrow(std::span<const float> values, DType dtype, std::byte* out);

}  // namespace gradmill
