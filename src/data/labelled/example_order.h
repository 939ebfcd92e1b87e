// SPDX-License-Identifier: Apache-2.0
// The order of the examples within an epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradmill {

enum class ExampleOrder : uint8_t {
  sequential,
  shuffled,
  // Batches of similar lengths: shuffles the examples, sorts by length within each mega-batch of about 50 batches, cuts
  // batches, and shuffles these. This is Hugging Face's group_by_length plus the last shuffle.
  grouped,
};

// Returns the indices of `lengths`, each exactly once. A pure function of the arguments. With `grouped`, only the last
// batch may be short.
std::vector<int32_t> epoch_order(std::span<const int32_t> lengths, ExampleOrder order, int64_t batch_size,
                                 uint64_t seed, int64_t epoch);

}  // namespace gradmill
