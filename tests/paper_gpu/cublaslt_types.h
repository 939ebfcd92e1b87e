// SPDX-License-Identifier: Apache-2.0
// The element types that the paper cuBLASLt multiplies, and their conversions. Written independently of core/dtype.h,
// so that a mistake there is not repeated here.
#pragma once

#include <library_types.h>

#include <cstddef>
#include <string>

namespace gradmill::paper {

// 0 for unsupported types.
size_t size_of(cudaDataType type);
bool is_fp8(cudaDataType type);
std::string name_of(cudaDataType type);

// Converts `count` contiguous elements.
void to_floats(cudaDataType type, const void* from, size_t count, float* to);
// Rounds to nearest even. FP8 saturates, also for infinity; other types overflow to infinity.
void from_floats(cudaDataType type, const float* from, size_t count, void* to);
// Rounds each value to 10 mantissa bits, to nearest even.
void round_to_tf32(float* values, size_t count);

}  // namespace gradmill::paper
