// SPDX-License-Identifier: Apache-2.0
// Formats numbers for people. Unknown numbers (not finite) are shown as "-".
#pragma once

#include <cstdint>
#include <string>

namespace gradmill {

std::string format_bytes(double bytes);       // "512 B", "1.50 GiB"
std::string format_count(double count);       // "950", "48.1", "12.3k", "1.24M"
std::string format_duration(double seconds);  // "0.52 s", "42 s", "3:07", "1:02:03", "2d 03:04:05"
std::string format_percent(double share);     // 0.412 -> "41.2%"
// Enough digits to tell two losses apart: "2.3456", "12.346", "1.234e-05". Shows "nan" and "inf".
std::string format_loss(double loss);

}  // namespace gradmill
