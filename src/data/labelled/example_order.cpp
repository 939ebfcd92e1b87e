// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/example_order.h"

#include <algorithm>
#include <numeric>

#include "data/tokens/epoch_order.h"

namespace gradmill {
namespace {

constexpr int64_t kExampleStream = 0, kBatchStream = 1;

// Uses at least four mega-batches, so that lengths do not decide everything, like Hugging Face's trainer.
int64_t mega_batch_size(int64_t count, int64_t batch_size) {
  constexpr int64_t kMostBatches = 50, kLeastMegaBatches = 4;
  return batch_size * std::clamp(count / (batch_size * kLeastMegaBatches), int64_t{1}, kMostBatches);
}

std::vector<int32_t> group_by_length(std::span<const int32_t> lengths, std::vector<int32_t> order, int64_t batch_size,
                                     uint64_t seed, int64_t epoch) {
  const int64_t count = std::ssize(order), mega = mega_batch_size(count, batch_size);
  const auto length = [&](int32_t at) { return lengths[static_cast<size_t>(at)]; };
  for (int64_t begin = 0; begin < count; begin += mega) {
    const std::span part =
        std::span(order).subspan(static_cast<size_t>(begin), static_cast<size_t>(std::min(mega, count - begin)));
    std::ranges::stable_sort(part, std::ranges::greater{}, length);
  }
  std::vector<int32_t> result;
  result.reserve(order.size());
  for (const int32_t batch : shuffled(count / batch_size, seed, epoch, kBatchStream)) {
    const auto begin = order.begin() + batch * batch_size;
    result.insert(result.end(), begin, begin + batch_size);
  }
  result.insert(result.end(), order.end() - count % batch_size, order.end());
  return result;
}

}  // namespace

std::vector<int32_t> epoch_order(std::span<const int32_t> lengths, ExampleOrder order, int64_t batch_size,
                                 uint64_t seed, int64_t epoch) {
  if (order == ExampleOrder::sequential) {
    std::vector<int32_t> result(lengths.size());
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  std::vector<int32_t> mixed = shuffled(std::ssize(lengths), seed, epoch, kExampleStream);
  if (order == ExampleOrder::shuffled) return mixed;
  return group_by_length(lengths, std::move(mixed), batch_size, seed, epoch);
}

}  // namespace gradmill
