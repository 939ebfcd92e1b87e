// SPDX-License-Identifier: Apache-2.0
#include "data/packed_loader.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "data/epoch_order.h"

namespace gradmill {
namespace {

void check_range(std::string_view what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw usage_error(fmt::format("the {} is {}", what, value), fmt::format("give a number from {} to {}", least, most));
}

void check(const PackPlan& plan, const PackedLoaderOptions& options, int64_t first_step) {
  constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();  // row numbers are int32
  check_range("batch size", options.batch_size, 1, kMostRows / plan.context());
  check_range("micro-batch size", options.micro_batch_size, 0, kMostRows);
  check_range("number of ranks", options.num_ranks, 1, options.batch_size);
  check_range("rank", options.rank, 0, options.num_ranks - 1);
  check_range("number of loader threads", options.num_threads, 0, 1024);
  check_range("number of steps to prefetch", options.prefetch, 1, 1024);
  check_range("first step", first_step, 0, kMostRows);
  if (options.batch_size % options.num_ranks != 0) {
    throw usage_error(
        fmt::format("a batch of {} rows has no equal parts for {} ranks", options.batch_size, options.num_ranks),
        "use a multiple");
  }
}

// The newest few values by key. They are shared, because a thread may still use one that another has pushed out.
template <class Key, class Value>
class RecentValues {
 public:
  explicit RecentValues(size_t most) : most_(most) {}

  template <class Make>
  std::shared_ptr<const Value> find(const Key& key, Make&& make) {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [known, value] : values_) {
        if (known == key) return value;
      }
    }
    // Threads that want the same at once make the same: they need not wait for each other.
    auto value = std::make_shared<const Value>(make());
    const std::lock_guard lock(mutex_);
    values_.emplace_front(key, value);
    if (values_.size() > most_) values_.pop_back();
    return value;
  }

 private:
  size_t most_;
  std::mutex mutex_;
  std::deque<std::pair<Key, std::shared_ptr<const Value>>> values_;
};

class StepMaker {
 public:
  StepMaker(const PackPlan& plan, const PackedLoaderOptions& options)
      : plan_(plan), options_(options), epochs_(2), blocks_(static_cast<size_t>(options.num_threads) + 2) {}

  StepBatch make(int64_t step) {
    const RowList rows = rows_of(step);
    const int64_t size = options_.batch_size / options_.num_ranks, before = options_.rank * size;
    const int64_t most = options_.micro_batch_size == 0 ? size : std::min(size, options_.micro_batch_size);
    StepBatch batch;
    batch.step = step;
    // Even parts, the larger ones first, as in TrainLoader.
    const int64_t parts = (size + most - 1) / most;
    for (int64_t part = 0, first = before, last = 0; part < parts; ++part, first = last) {
      last = first + size / parts + (part < size % parts ? 1 : 0);
      const std::span<const Piece> pieces = rows.rows(first, last);
      batch.micro.push_back(
          make_packed_batch(plan_.shards(), pieces, most, plan_.context(), most * plan_.seqs_per_row()));
      for (const Piece& piece : rows.rows(0, first)) batch.micro.back().token_base += piece.length;
    }
    for (const Piece& piece : rows.pieces) batch.num_targets += piece.length - (piece.has_next ? 0 : 1);
    return batch;
  }

 private:
  // Of all ranks.
  RowList rows_of(int64_t step) {
    RowList rows;
    for (int64_t next = step * options_.batch_size; rows.num_rows() < options_.batch_size;) {
      const int64_t epoch = next / plan_.num_rows();
      const auto order = epochs_.find(epoch, [&] { return EpochOrder(plan_, options_.seed, epoch, options_.shuffle); });
      const EpochOrder::Place place = order->locate(next % plan_.num_rows());
      const auto block = blocks_.find(std::pair(epoch, place.block), [&] { return order->block_rows(place.block); });
      const int64_t count = std::min(options_.batch_size - rows.num_rows(), block->num_rows() - place.row);
      for (int64_t row = place.row; row < place.row + count; ++row) rows.add_row(block->rows(row, row + 1));
      next += count;
    }
    return rows;
  }

  const PackPlan& plan_;
  PackedLoaderOptions options_;
  RecentValues<int64_t, EpochOrder> epochs_;
  RecentValues<std::pair<int64_t, int64_t>, RowList> blocks_;
};

Prefetcher::Make checked_make(const PackPlan& plan, const PackedLoaderOptions& options, int64_t first_step) {
  check(plan, options, first_step);
  // Shared, because std::function copies what it holds.
  return [maker = std::make_shared<StepMaker>(plan, options)](int64_t step) { return maker->make(step); };
}

}  // namespace

PackedLoader::PackedLoader(const PackPlan& plan, const PackedLoaderOptions& options, int64_t first_step)
    : prefetcher_(checked_make(plan, options, first_step), options.num_threads, options.prefetch, first_step) {}

}  // namespace gradmill
