// SPDX-License-Identifier: Apache-2.0
// The order in which an epoch goes through examples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradmill {

enum class ExampleOrder : uint8_t {
  sequential,
  shuffled,
  // Batches of similar lengths: shuffled, sorted by length within each 50 batches or so, cut into batches, and those
  // shuffled. Hugging Face's group_by_length, but for the last shuffling.
  grouped,
};

// Positions of lengths, each once. A function of the arguments alone. Of grouped ones, only the last batch may be
// short.
std::vector<int32_t> epoch_order(std::span<const int32_t> lengths, ExampleOrder order, int64_t batch_size,
                                 uint64_t seed, int64_t epoch);

}  // namespace gradmill
