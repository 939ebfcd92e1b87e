// SPDX-License-Identifier: Apache-2.0
// Threads poll for a short while before they sleep: a step is some hundred short ops in a row, and waking a sleeping
// thread costs more than many of them.
#include "cpu/thread_pool.h"

#include <cassert>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradmill::cpu {
namespace {

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

constexpr int kSpins = 20000;  // about half a millisecond

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  assert(num_threads >= 1);
  spins_ = num_threads <= static_cast<int>(std::thread::hardware_concurrency()) ? kSpins : 0;
  workers_.reserve(static_cast<size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this] { worker_main(); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::work() {
  for (int64_t index; (index = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
    try {
      call_(context_, index);
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
  }
}

void ThreadPool::worker_main() {
  uint32_t seen = 0;
  while (true) {
    for (int spin = 0; spin < spins_ && generation_.load(std::memory_order_acquire) == seen; ++spin) pause_cpu();
    while (generation_.load(std::memory_order_acquire) == seen) generation_.wait(seen, std::memory_order_acquire);
    ++seen;  // every worker takes part in every generation
    if (stop_.load(std::memory_order_relaxed)) return;
    work();
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

void ThreadPool::run_erased(int64_t count, Call call, void* context) {
  if (count <= 1 || workers_.empty()) {
    for (int64_t index = 0; index < count; ++index) call(context, index);
    return;
  }
  call_ = call;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  work();
  int left = busy_.load(std::memory_order_acquire);
  for (int spin = 0; spin < spins_ && left != 0; ++spin) {
    pause_cpu();
    left = busy_.load(std::memory_order_acquire);
  }
  for (; left != 0; left = busy_.load(std::memory_order_acquire)) busy_.wait(left, std::memory_order_acquire);
  if (failed_.exchange(false)) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace gradmill::cpu
