// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), to tell whether a data set is the one that was meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace gradmill {

// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace gradmill
