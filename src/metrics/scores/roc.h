// SPDX-License-Identifier: Apache-2.0
// The area under the ROC curve: how often a positive example scores higher than a negative one. Ties count half.
#pragma once

#include <cstdint>
#include <span>

namespace gradmill {

// NaN if there are no positive or no negative examples.
double roc_auc(std::span<const float> scores, std::span<const uint8_t> positive);
// The mean over classes of the area of each class against all others; `scores` is (examples, classes). NaN if a class
// has no example or all of them.
double macro_roc_auc(std::span<const float> scores, std::span<const int32_t> truth, int64_t num_classes);

}  // namespace gradmill
