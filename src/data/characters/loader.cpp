// SPDX-License-Identifier: Apache-2.0
#include "data/characters/loader.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "core/rng.h"

namespace gradmill {
namespace {

void check_range(std::string_view what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw usage_error(fmt::format("the {} is {}", what, value), fmt::format("give a number from {} to {}", least, most));
}

void check(std::span<const int32_t> tokens, const LoaderOptions& options, int64_t first_step) {
  constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();  // row numbers are int32
  check_range("batch size", options.batch_size, 1, kMostRows);
  check_range("micro-batch size", options.micro_batch_size, 0, kMostRows);
  check_range("number of ranks", options.num_ranks, 1, options.batch_size);
  check_range("rank", options.rank, 0, options.num_ranks - 1);
  check_range("context", options.context, 1, kMostRows / options.batch_size);
  check_range("number of loader threads", options.num_threads, 0, 1024);
  check_range("number of steps to prefetch", options.prefetch, 1, 1024);
  check_range("first step", first_step, 0, kMostRows);
  if (options.batch_size % options.num_ranks != 0) {
    throw usage_error(
        fmt::format("a batch of {} sequences has no equal parts for {} ranks", options.batch_size, options.num_ranks),
        "use a multiple");
  }
  const auto size = static_cast<int64_t>(tokens.size());
  if (size <= options.context) {
    throw data_error(fmt::format("{} tokens to train on are too few for a context of {}", size, options.context),
                     fmt::format("use a text of at least {} or a shorter context", options.context + 1));
  }
}

StepBatch make_step(std::span<const int32_t> tokens, const LoaderOptions& options, int64_t step) {
  const int64_t context = options.context, size = options.batch_size / options.num_ranks;
  const int64_t most = options.micro_batch_size == 0 ? size : std::min(size, options.micro_batch_size);
  StepBatch batch;
  batch.step = step;
  batch.num_targets = options.batch_size * context;
  std::vector<Window> windows;
  for (const auto [first, last] : even_parts(options.rank * size, size, most)) {
    windows.clear();
    for (int64_t index = first; index < last; ++index) {
      windows.push_back({window_begin(options.seed, step, index, std::ssize(tokens), context), context});
    }
    batch.micro.push_back(make_micro_batch(tokens, windows, most, context));
    batch.micro.back().token_base = first * context;
  }
  return batch;
}

Prefetcher::Make checked_make(std::span<const int32_t> tokens, const LoaderOptions& options, int64_t first_step) {
  check(tokens, options, first_step);
  return [tokens, options](int64_t step) { return make_step(tokens, options, step); };
}

}  // namespace

int64_t window_begin(uint64_t seed, int64_t step, int64_t index, int64_t num_tokens, int64_t context) {
  const RandomBlock words =
      philox(seed, {static_cast<uint32_t>(index), 0, static_cast<uint32_t>(step), RngSite::kShuffle});
  const uint64_t word = uint64_t{words[1]} << 32 | words[0];
  // The remainder of 64 bits favours some start positions by at most num_tokens / 2^64.
  return static_cast<int64_t>(word % static_cast<uint64_t>(num_tokens - context));
}

TrainLoader::TrainLoader(std::span<const int32_t> tokens, const LoaderOptions& options, int64_t first_step)
    : prefetcher_(checked_make(tokens, options, first_step), options.num_threads, options.prefetch, first_step,
                  options.note) {}

}  // namespace gradmill
