// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/packed_loader.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "data/tokens/epoch_order.h"

namespace gradmill {
namespace {

constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();  // row numbers are int32

void check_range(std::string_view what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw usage_error(fmt::format("the {} is {}", what, value), fmt::format("give a number from {} to {}", least, most));
}

// A cache of the newest few values by key. Values are shared, because a thread may still use one that was evicted.
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
    // Threads that need the same value at the same time each make it, so they need not wait for each other.
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
    StepBatch batch{.step = step, .micro = micro_batches(rows, options_.rank)};
    if (!options_.edit) {
      batch.num_targets = count_targets(plan_.shards(), rows.pieces);
      return batch;
    }
    batch.num_tokens = 0;
    for (const Piece& piece : rows.pieces) *batch.num_tokens += piece.length;
    batch.num_targets = edit_step(options_, step, batch.micro, [&](int64_t rank) { return micro_batches(rows, rank); });
    return batch;
  }

 private:
  std::vector<MicroBatch> micro_batches(const RowList& rows, int64_t rank) const {
    const int64_t size = options_.batch_size / options_.num_ranks;
    const int64_t most = options_.micro_batch_size == 0 ? size : std::min(size, options_.micro_batch_size);
    std::vector<MicroBatch> batches;
    for (const auto [first, last] : even_parts(rank * size, size, most)) {
      const std::span<const Piece> pieces = rows.rows(first, last);
      batches.push_back(make_packed_batch(plan_.shards(), pieces, most, plan_.context(), most * plan_.seqs_per_row()));
      for (const Piece& piece : rows.rows(0, first)) batches.back().token_base += piece.length;
    }
    return batches;
  }

  // Of all ranks.
  RowList rows_of(int64_t step) {
    RowList rows;
    for (int64_t next = step * options_.batch_size; rows.num_rows() < options_.batch_size;) {
      const int64_t epoch = next / plan_.num_rows();
      const auto order = epochs_.find(epoch, [&] { return EpochOrder(plan_, options_.seed, epoch, options_.shuffle); });
      const EpochOrder::Place place = order->locate(next % plan_.num_rows());
      const auto block =
          blocks_.find(std::pair(epoch, place.block), [&] { return readable(order->block_rows(place.block)); });
      const int64_t count = std::min(options_.batch_size - rows.num_rows(), block->num_rows() - place.row);
      for (int64_t row = place.row; row < place.row + count; ++row) rows.add_row(block->rows(row, row + 1));
      next += count;
    }
    if (rows.pieces.empty()) {
      throw data_error(fmt::format("every row of step {} is damaged", step), "copy or tokenise the shards again");
    }
    return rows;
  }

  // If the policy allows it, drops the pieces that cannot be read. Decided here for all ranks alike, once per block.
  RowList readable(RowList rows) const {
    if (options_.damaged == BadRecordPolicy::error) return rows;
    RowList result;
    std::vector<Piece> row;
    std::string first_damage;
    int64_t num_lost = 0;
    for (int64_t r = 0; r < rows.num_rows(); ++r) {
      row.clear();
      for (const Piece& piece : rows.rows(r, r + 1)) {
        try {
          plan_.shards().check(piece.begin, piece.length + (piece.has_next ? 1 : 0));
          row.push_back(piece);
        } catch (const Error& error) {
          if (num_lost == 0) first_damage = error.what();
          num_lost += piece.length;
        }
      }
      result.add_row(row);
    }
    if (num_lost > 0 && options_.note) options_.note(fmt::format("skipped {} tokens: {}", num_lost, first_damage));
    return result;
  }

  const PackPlan& plan_;
  PackedLoaderOptions options_;
  RecentValues<int64_t, EpochOrder> epochs_;
  RecentValues<std::pair<int64_t, int64_t>, RowList> blocks_;
};

Prefetcher::Make checked_make(const PackPlan& plan, const PackedLoaderOptions& options, int64_t first_step) {
  check_loader_options(options, plan.context());
  check_range("first step", first_step, 0, kMostRows);
  // Shared, because std::function copies its target.
  return [maker = std::make_shared<StepMaker>(plan, options)](int64_t step) { return maker->make(step); };
}

}  // namespace

int64_t edit_step(const PackedLoaderOptions& options, int64_t step, std::vector<MicroBatch>& own,
                  const std::function<std::vector<MicroBatch>(int64_t rank)>& make) {
  int64_t num_targets = 0;
  const auto edit = [&](std::vector<MicroBatch>& batches) {
    for (MicroBatch& batch : batches) {
      options.edit(step, batch);
      num_targets += batch.num_targets;
    }
  };
  edit(own);
  for (int64_t rank = 0; rank < options.num_ranks; ++rank) {
    if (rank == options.rank) continue;
    std::vector<MicroBatch> others = make(rank);
    edit(others);
  }
  return num_targets;
}

void check_loader_options(const PackedLoaderOptions& options, int64_t context) {
  check_range("batch size", options.batch_size, 1, kMostRows / context);
  check_range("micro-batch size", options.micro_batch_size, 0, kMostRows);
  check_range("number of ranks", options.num_ranks, 1, options.batch_size);
  check_range("rank", options.rank, 0, options.num_ranks - 1);
  check_range("number of loader threads", options.num_threads, 0, 1024);
  check_range("number of steps to prefetch", options.prefetch, 1, 1024);
  if (options.batch_size % options.num_ranks != 0) {
    throw usage_error(
        fmt::format("a batch of {} rows has no equal parts for {} ranks", options.batch_size, options.num_ranks),
        "use a multiple");
  }
}

PackedLoader::PackedLoader(const PackPlan& plan, const PackedLoaderOptions& options, int64_t first_step)
    : prefetcher_(checked_make(plan, options, first_step), options.num_threads, options.prefetch, first_step,
                  options.note) {}

}  // namespace gradmill
