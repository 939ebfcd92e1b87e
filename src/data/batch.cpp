// SPDX-License-Identifier: Apache-2.0
#include "data/batch.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "core/error.h"
#include "core/seq_layout.h"

namespace gradmill {

std::vector<RowRange> even_parts(int64_t first, int64_t count, int64_t most) {
  const int64_t parts = most == 0 ? 1 : (count + most - 1) / most;
  std::vector<RowRange> ranges;
  for (int64_t part = 0, last = 0; part < parts; ++part, first = last) {
    last = first + count / parts + (part < count % parts ? 1 : 0);
    ranges.push_back({first, last});
  }
  return ranges;
}

MicroBatch empty_micro_batch(int64_t num_tokens, int64_t max_seqs) {
  const auto capacity = static_cast<size_t>(token_capacity(num_tokens));
  MicroBatch batch;
  batch.tokens.assign(capacity, 0);
  batch.targets.assign(capacity, kIgnoredTarget);
  batch.positions.assign(capacity, 0);
  batch.cu_seqlens.assign(static_cast<size_t>(max_seqs) + 1, 0);
  return batch;
}

MicroBatch make_micro_batch(std::span<const int32_t> tokens, std::span<const Window> windows, int64_t max_seqs,
                            int64_t context) {
  assert(static_cast<int64_t>(windows.size()) <= max_seqs);
  MicroBatch batch = empty_micro_batch(max_seqs * context, max_seqs);
  int64_t row = 0;
  for (const Window& window : windows) {
    assert(window.begin >= 0 && window.length >= 1 && window.length <= context);
    assert(window.begin + window.length < static_cast<int64_t>(tokens.size()));
    const auto from = tokens.begin() + window.begin;
    std::copy_n(from, window.length, batch.tokens.begin() + row);
    std::copy_n(from + 1, window.length, batch.targets.begin() + row);
    std::iota(batch.positions.begin() + row, batch.positions.begin() + row + window.length, 0);
    row += window.length;
    batch.cu_seqlens[static_cast<size_t>(++batch.num_seqs)] = static_cast<int32_t>(row);
  }
  std::fill(batch.cu_seqlens.begin() + batch.num_seqs + 1, batch.cu_seqlens.end(), static_cast<int32_t>(row));
  batch.num_targets = row;
  return batch;
}

namespace {

std::vector<Window> eval_windows(int64_t num_targets, int64_t context, int64_t max_tokens) {
  std::vector<Window> windows;
  if (max_tokens == 0 || max_tokens >= num_targets) {
    for (int64_t begin = 0; begin < num_targets; begin += context) {
      windows.push_back({begin, std::min(context, num_targets - begin)});
    }
  } else if (max_tokens < context) {
    windows.push_back({0, max_tokens});
  } else {
    const int64_t whole = num_targets / context, count = max_tokens / context;
    for (int64_t i = 0; i < count; ++i) windows.push_back({i * whole / count * context, context});
  }
  return windows;
}

}  // namespace

std::vector<MicroBatch> eval_batches(std::span<const int32_t> tokens, int64_t batch_size, int64_t context,
                                     int64_t max_tokens) {
  if (batch_size < 1) throw usage_error(fmt::format("the batch size is {}", batch_size), "give at least 1");
  if (context < 1) throw usage_error(fmt::format("the context is {}", context), "give at least 1");
  if (max_tokens < 0) {
    throw usage_error(fmt::format("the tokens to evaluate are {}", max_tokens), "give a count, or 0 for all");
  }
  if (tokens.size() < 2) {
    throw data_error(fmt::format("{} tokens cannot be evaluated", tokens.size()), "give a text of two or more");
  }
  const std::vector<Window> windows = eval_windows(static_cast<int64_t>(tokens.size()) - 1, context, max_tokens);
  std::vector<MicroBatch> batches;
  const auto total = static_cast<int64_t>(windows.size());
  for (int64_t first = 0; first < total; first += batch_size) {
    const int64_t count = std::min(batch_size, total - first);
    const auto part = std::span(windows).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    batches.push_back(make_micro_batch(tokens, part, batch_size, context));
    batches.back().token_base = first * context;
  }
  return batches;
}

}  // namespace gradmill
