// SPDX-License-Identifier: Apache-2.0
// The area under the ROC curve: how often a positive example scores above a negative one; ties count half.
#pragma once

#include <cstdint>
#include <span>

namespace gradmill {

// Not a number where one of the sides has no example.
double roc_auc(std::span<const float> scores, std::span<const uint8_t> positive);
// The mean over classes of each one's area against all others; `scores` is (examples, classes). Not a number where a
// class has no example, or has all of them.
double macro_roc_auc(std::span<const float> scores, std::span<const int32_t> truth, int64_t num_classes);

}  // namespace gradmill
