// SPDX-License-Identifier: Apache-2.0
#include "data/crew.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "support/errors.h"

namespace gradmill::test {
namespace {

using Numbers = Crew<int64_t, int64_t>;

// The numbers below `count`.
Numbers::Take numbers(int64_t count) {
  return [next = int64_t{0}, count]() mutable { return next < count ? std::optional(next++) : std::nullopt; };
}

std::vector<int64_t> all_of(Numbers& crew) {
  std::vector<int64_t> results;
  while (const std::optional<int64_t> result = crew.next()) results.push_back(*result);
  return results;
}

class Notes {
 public:
  CrewNote sink() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

std::vector<int64_t> squares(int64_t count) {
  std::vector<int64_t> results;
  for (int64_t i = 0; i < count; ++i) results.push_back(i * i);
  return results;
}

TEST(Crew, ResultsComeInTheOrderOfTheJobs) {
  for (int workers : {0, 1, 4, 7}) {
    for (int ahead : {1, 2, 9}) {
      Numbers crew(numbers(200),
                   [](int64_t job) {
                     if (job % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
                     return job * job;
                   },
                   {.num_workers = workers, .ahead = ahead});
      EXPECT_EQ(all_of(crew), squares(200)) << workers << " " << ahead;
      EXPECT_EQ(crew.next(), std::nullopt);
      EXPECT_EQ(crew.stats().results, 200);
    }
  }
}

TEST(Crew, AFailedWorkerIsReplacedThenTheCrewShrinksThenNextWorksItself) {
  // The first attempt at every job fails.
  constexpr int64_t kJobs = 30;
  std::array<std::atomic<bool>, kJobs> failed{};
  Notes notes;
  CrewStats stats;
  {
    Numbers crew(numbers(kJobs),
                 [&](int64_t job) {
                   if (!failed[static_cast<size_t>(job)].exchange(true)) throw std::bad_alloc();
                   return job * job;
                 },
                 {.num_workers = 3, .ahead = 4, .replacements = 2, .note = notes.sink()});
    EXPECT_EQ(all_of(crew), squares(kJobs));
    stats = crew.stats();
  }  // the threads have ended, so all notes have been written
  EXPECT_EQ(stats.workers, 0);
  EXPECT_EQ(stats.failures, kJobs);
  const std::vector<std::string> lines = notes.lines();
  ASSERT_EQ(lines.size(), 5u);  // two replaced, three lost
  EXPECT_EQ(std::ranges::count_if(lines, [](const auto& line) { return line.find("replaced") != line.npos; }), 2);
  EXPECT_EQ(
      std::ranges::count_if(lines, [](const auto& line) { return line.find("without loader threads") != line.npos; }),
      1);
  for (const std::string& line : lines) EXPECT_NE(line.find("bad_alloc"), std::string::npos) << line;
}

TEST(Crew, AFailureToTakeAJobLosesNone) {
  for (int workers : {1, 3}) {
    bool failed = false;
    Numbers crew(
        [take = numbers(20), &failed]() mutable {
          if (!std::exchange(failed, true)) throw std::runtime_error("no memory to read");
          return take();
        },
        [](int64_t job) { return job * job; }, {.num_workers = workers});
    EXPECT_EQ(all_of(crew), squares(20));
    EXPECT_EQ(crew.stats().failures, 1);
    EXPECT_EQ(crew.stats().workers, workers);
  }
}

TEST(Crew, WrongDataIsToldInItsTurnAndCostsNoWorker) {
  for (int workers : {0, 1, 4}) {
    std::atomic<int> tries = 0;
    Numbers crew(numbers(20),
                 [&](int64_t job) {
                   if (job == 11) {
                     ++tries;
                     throw data_error("eleven", "use twelve");
                   }
                   return job;
                 },
                 {.num_workers = workers, .ahead = 3});
    for (int64_t job = 0; job < 11; ++job) EXPECT_EQ(crew.next(), job);
    for (int i = 0; i < 2; ++i) expect_error([&] { crew.next(); }, ExitCode::data, {"eleven"});
    if (workers > 0) {
      EXPECT_EQ(tries, 1);
    }
    EXPECT_EQ(crew.stats().workers, workers);
    EXPECT_EQ(crew.stats().failures, 0);
  }
}

TEST(Crew, AnErrorWhileTakingEndsTheJobs) {
  for (int workers : {0, 2}) {
    Numbers crew(
        [next = int64_t{0}]() mutable -> std::optional<int64_t> {
          if (next == 5) throw data_error("cut short", "fetch it again");
          return next++;
        },
        [](int64_t job) { return job; }, {.num_workers = workers});
    for (int64_t job = 0; job < 5; ++job) EXPECT_EQ(crew.next(), job);
    for (int i = 0; i < 2; ++i) expect_error([&] { crew.next(); }, ExitCode::data, {"cut short"});
  }
}

TEST(Crew, WhatFailsEverywhereIsThrown) {
  for (int workers : {0, 1, 3}) {
    Numbers crew(numbers(20),
                 [](int64_t job) {
                   if (job == 4) throw std::runtime_error("four");
                   return job;
                 },
                 {.num_workers = workers, .ahead = 3});
    for (int64_t job = 0; job < 4; ++job) EXPECT_EQ(crew.next(), job);
    EXPECT_THROW(crew.next(), std::runtime_error);
    EXPECT_THROW(crew.next(), std::runtime_error);
  }
}

TEST(Crew, CountsTheTimeThatNextWaits) {
  const auto slow = [](int64_t job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return job;
  };
  Numbers crew(numbers(4), slow, {.num_workers = 1});
  all_of(crew);
  EXPECT_GE(crew.stats().wait_seconds, 0.005);
  EXPECT_GE(crew.stats().busy_seconds, 0.02);
}

TEST(AutoLoaderThreads, LeavesTwoCores) {
  EXPECT_EQ(auto_loader_threads(0), 0);
  EXPECT_EQ(auto_loader_threads(1), 0);
  EXPECT_EQ(auto_loader_threads(2), 1);
  EXPECT_EQ(auto_loader_threads(3), 1);
  EXPECT_EQ(auto_loader_threads(8), 6);
  EXPECT_EQ(auto_loader_threads(500), 32);
}

}  // namespace
}  // namespace gradmill::test
