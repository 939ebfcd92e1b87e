// SPDX-License-Identifier: Apache-2.0
// Idle threads poll for a short while before they sleep: a step is some hundred short ops in a row, and waking a
// sleeping thread costs more than many of them.
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
#endif
}

// Polls before a waiting thread sleeps: about 5 microseconds of pauses, then about a millisecond of yields, in which
// the core may go to the thread we wait for.
constexpr int kPauses = 200, kYields = 2000;

void poll(int turn) {
  if (turn < kPauses)
    pause_cpu();
  else
    std::this_thread::yield();
}

constexpr uint32_t kOpen = 1u << 12;
constexpr uint32_t kInside = kOpen - 1;
constexpr uint32_t kNextJob = kOpen << 1;

bool is_open(uint32_t gate) { return (gate & kOpen) != 0; }
uint32_t job_of(uint32_t gate) { return gate / kNextJob; }

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  assert(num_threads >= 1 && num_threads <= static_cast<int>(kInside));
  spins_ = num_threads <= static_cast<int>(std::thread::hardware_concurrency()) ? kPauses + kYields : 0;
  workers_.reserve(static_cast<size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this] { worker_main(); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  gate_.fetch_add(kNextJob, std::memory_order_release);
  gate_.notify_all();
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
  uint32_t last_job = 0;
  int spin = 0;
  while (true) {
    uint32_t gate = gate_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!is_open(gate) || job_of(gate) == last_job) {
      if (spin < spins_)
        poll(spin++);
      else
        gate_.wait(gate, std::memory_order_acquire);
      continue;
    }
    if (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire)) continue;
    last_job = job_of(gate);
    spin = 0;
    work();
    gate_.fetch_sub(1, std::memory_order_release);
    gate_.notify_all();
  }
}

// Waits only for the workers that joined this job. A worker that the system has not scheduled yet does not delay it.
void ThreadPool::run_erased(int64_t count, Call call, void* context) {
  if (count <= 1 || workers_.empty()) {
    for (int64_t index = 0; index < count; ++index) call(context, index);
    return;
  }
  call_ = call;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  gate_.fetch_add(kNextJob | kOpen, std::memory_order_release);
  gate_.notify_all();
  work();
  uint32_t gate = gate_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  for (int spin = 0; (gate & kInside) != 0; gate = gate_.load(std::memory_order_acquire)) {
    if (spin < spins_)
      poll(spin++);
    else
      gate_.wait(gate, std::memory_order_acquire);
  }
  if (failed_.exchange(false)) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace gradmill::cpu
