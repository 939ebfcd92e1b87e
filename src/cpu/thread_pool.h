// SPDX-License-Identifier: Apache-2.0
// ThreadPool: a fixed team of threads that runs numbered tasks. Results must not depend on its size: an op splits its
// work into tasks by shape alone, and each task writes its own output.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace gradmill::cpu {

class ThreadPool {
 public:
  // `num_threads` includes the calling thread.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(i) for every i in [0, count), in any order, and returns when all are done. Not reentrant.
  template <class Task>
  void run(int64_t count, Task&& task) {
    using Fn = std::remove_reference_t<Task>;
    run_erased(
        count, [](void* context, int64_t index) { (*static_cast<Fn*>(context))(index); },
        const_cast<void*>(static_cast<const void*>(&task)));
  }

 private:
  using Call = void (*)(void* context, int64_t index);

  void run_erased(int64_t count, Call call, void* context);
  void work();
  void worker_main();

  std::vector<std::thread> workers_;
  int spins_;  // polls before a waiting thread sleeps; 0 if there are more threads than cores

  Call call_ = nullptr;
  void* context_ = nullptr;
  int64_t count_ = 0;
  std::exception_ptr failure_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int64_t> next_{0};
  // Low bits: the number of workers in the current job. Next bit: whether the job accepts workers. High bits: the job's
  // number.
  alignas(64) std::atomic<uint32_t> gate_{0};
};

// Splits `size` items into tasks of at most `grain` items and calls task(begin, end) for each.
template <class Task>
void parallel_for(ThreadPool& pool, int64_t size, int64_t grain, Task&& task) {
  const int64_t tasks = (size + grain - 1) / grain;
  pool.run(tasks, [&](int64_t index) {
    const int64_t begin = index * grain;
    task(begin, begin + grain < size ? begin + grain : size);
  });
}

}  // namespace gradmill::cpu
