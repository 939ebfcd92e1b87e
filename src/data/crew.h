// SPDX-License-Identifier: Apache-2.0
// Crew: threads that turn jobs into results before these are needed. The results of next() do not depend on the number
// of threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include "core/error.h"
#include "data/crew_report.h"

namespace gradmill {

struct CrewOptions {
  int num_workers = 0;  // 0: next() does all the work
  int ahead = 2;        // largest number of results that are finished or in progress before they are requested
  // Number of failed workers that are replaced. Each further failure makes the crew smaller.
  int replacements = 4;
  CrewNote note = {};  // called for every failure, from any thread; must not throw
};

// An Error concerns the data or the settings and would occur on any thread, so it is thrown by the next() call that
// would return the result. Any other exception is a failure of the worker (memory, a system call): the failure is noted
// and the job is done again by another worker or, after a second failure, by next() itself. Only an exception there is
// thrown.
template <class Job, class Result>
class Crew {
 public:
  // Returns the jobs in order, and nothing at the end. Called by one thread at a time. After an exception that is not
  // an Error, it must be able to return the same job again.
  using Take = std::function<std::optional<Job>()>;
  // Called by several threads at the same time and out of order. Must return the same result for the same job.
  using Make = std::function<Result(const Job&)>;

  Crew(Take take, Make make, CrewOptions options)
      : take_(std::move(take)), make_(std::move(make)), options_(std::move(options)) {
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < options_.num_workers; ++i) hire();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  // Waits for the jobs in progress.
  ~Crew() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // The result of the next job, or nothing after the last. An exception for a job is thrown again by every later call.
  std::optional<Result> next();
  CrewStats stats() const {
    const std::lock_guard lock(mutex_);
    CrewStats stats = stats_;
    stats.workers = workers_;
    return stats;
  }

 private:
  struct Work {
    std::optional<Job> job;
    int failures = 0;
  };
  using Made = std::variant<std::exception_ptr, Result>;
  using Lock = std::unique_lock<std::mutex>;

  // If the system refuses a thread, the crew stays smaller.
  void hire() try {
    threads_.emplace_back([this] { work(); });
    ++workers_;
  } catch (const std::system_error&) {
  }
  void work();
  // These functions are called with the lock held and release it while they call user code. Returns false if the worker
  // failed and must end.
  bool take_job(Lock& lock);
  bool do_job(Lock& lock, int64_t ticket, Work work);
  bool can_take() const { return !ended_ && !taking_ && to_take_ < next_ + options_.ahead; }
  void replace_worker(Lock& lock, const std::string& what);
  Result make_here(Lock& lock);

  Take take_;
  Make make_;
  CrewOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int workers_ = 0;
  bool stopping_ = false, taking_ = false, ended_ = false;
  int64_t next_ = 0, to_take_ = 0;  // tickets: of next(), and of the first job that has not been taken
  std::map<int64_t, Work> waiting_;
  std::map<int64_t, Made> made_;
  CrewStats stats_;
  std::list<std::thread> threads_;
};

template <class Job, class Result>
void Crew<Job, Result>::work() {
  Lock lock(mutex_);
  // A job that failed twice is left to next().
  const auto find_waiting = [&] {
    auto at = waiting_.begin();
    while (at != waiting_.end() && at->second.failures > 1) ++at;
    return at;
  };
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || find_waiting() != waiting_.end() || can_take(); });
    if (stopping_) return;
    const auto at = find_waiting();
    if (at == waiting_.end()) {
      if (!take_job(lock)) return;
    } else {
      auto node = waiting_.extract(at);
      if (!do_job(lock, node.key(), std::move(node.mapped()))) return;
    }
  }
}

template <class Job, class Result>
bool Crew<Job, Result>::take_job(Lock& lock) {
  taking_ = true;
  std::optional<Job> job;
  std::exception_ptr error;
  std::string failure;
  lock.unlock();
  try {
    job = take_();
  } catch (const Error&) {
    error = std::current_exception();
  } catch (...) {
    failure = describe_failure(std::current_exception());
  }
  lock.lock();
  taking_ = false;
  changed_.notify_all();
  if (!failure.empty()) {
    replace_worker(lock, failure);
    return false;
  }
  ended_ = !job;
  if (job) waiting_.emplace(to_take_++, Work{std::move(job)});
  if (error) made_.emplace(to_take_++, error);
  return true;
}

template <class Job, class Result>
bool Crew<Job, Result>::do_job(Lock& lock, int64_t ticket, Work work) {
  Made made;
  std::string failure;
  lock.unlock();
  const Stopwatch watch;
  try {
    made = make_(*work.job);
  } catch (const Error&) {
    made = std::current_exception();
  } catch (...) {
    failure = describe_failure(std::current_exception());
  }
  if (failure.empty()) work.job.reset();  // destroyed without holding the lock
  lock.lock();
  stats_.busy_seconds += watch.seconds();
  changed_.notify_all();
  if (failure.empty()) {
    made_.emplace(ticket, std::move(made));
    return true;
  }
  ++work.failures;
  waiting_.emplace(ticket, std::move(work));
  replace_worker(lock, failure);
  return false;
}

// Uses a fresh thread, because the libraries of the failed one may be in an unknown state.
template <class Job, class Result>
void Crew<Job, Result>::replace_worker(Lock& lock, const std::string& what) {
  --workers_;
  const bool replaced = ++stats_.failures <= options_.replacements;
  if (replaced && !stopping_) hire();
  changed_.notify_all();
  if (!options_.note) return;
  const std::string line = describe_crew_failure(what, replaced, workers_);
  lock.unlock();
  options_.note(line);
  lock.lock();
}

template <class Job, class Result>
std::optional<Result> Crew<Job, Result>::next() {
  Lock lock(mutex_);
  const Stopwatch watch;
  for (;;) {
    if (const auto at = made_.find(next_); at != made_.end()) {
      if (const auto* error = std::get_if<std::exception_ptr>(&at->second)) std::rethrow_exception(*error);
      Result result = std::get<Result>(std::move(at->second));
      made_.erase(at);
      ++next_;
      ++stats_.results;
      stats_.wait_seconds += watch.seconds();
      changed_.notify_all();
      return result;
    }
    if (ended_ && next_ == to_take_) return std::nullopt;
    const auto at = waiting_.find(next_);
    if (at != waiting_.end() && (workers_ == 0 || at->second.failures > 1)) {
      made_.emplace(next_, make_here(lock));
    } else if (workers_ == 0) {
      // No other worker remains, so a failure to take a job can only be reported.
      std::optional<Job> job = take_();
      ended_ = !job;
      if (job) waiting_.emplace(to_take_++, Work{std::move(job)});
    } else {
      changed_.wait(lock);
    }
  }
}

template <class Job, class Result>
Result Crew<Job, Result>::make_here(Lock& lock) {
  constexpr int kAttempts = 3;
  auto node = waiting_.extract(next_);
  for (int attempt = 1;; ++attempt) {
    lock.unlock();
    try {
      const Stopwatch watch;
      Result result = make_(*node.mapped().job);
      lock.lock();
      stats_.busy_seconds += watch.seconds();
      return result;
    } catch (const Error&) {
      lock.lock();
      waiting_.insert(std::move(node));
      throw;
    } catch (...) {
      lock.lock();
      ++stats_.failures;
      if (attempt == kAttempts) {
        waiting_.insert(std::move(node));
        throw;
      }
    }
  }
}

}  // namespace gradmill
