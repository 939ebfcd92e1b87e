// SPDX-License-Identifier: Apache-2.0
#include "data/prefetcher.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace gradmill {

Prefetcher::Prefetcher(Make make, int num_threads, int prefetch, int64_t first_step)
    : make_(std::move(make)), prefetch_(prefetch), next_step_(first_step), to_make_(first_step) {
  assert(num_threads >= 0 && prefetch >= 1 && first_step >= 0);
  // More threads than steps ahead would only wait.
  for (int i = 0; i < std::min(num_threads, prefetch); ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

void Prefetcher::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return to_make_ < next_step_ + prefetch_; }) && !stop.stop_requested()) {
    const int64_t step = to_make_++;
    lock.unlock();
    Made made;
    try {
      made.batch = make_(step);
    } catch (...) {
      made.failure = std::current_exception();
    }
    lock.lock();
    made_.emplace(step, std::move(made));
    changed_.notify_all();
  }
}

StepBatch Prefetcher::next() {
  if (threads_.empty()) {
    StepBatch batch = make_(next_step_);
    ++next_step_;
    return batch;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return made_.contains(next_step_); });
  const auto at = made_.find(next_step_);
  if (at->second.failure) std::rethrow_exception(at->second.failure);
  StepBatch batch = std::move(at->second.batch);
  made_.erase(at);
  ++next_step_;
  changed_.notify_all();
  return batch;
}

}  // namespace gradmill
