// SPDX-License-Identifier: Apache-2.0
// ThreadRanks: ranks that are threads of one process, for tests on the CPU.
#pragma once

#include <barrier>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "core/communicator.h"

namespace gradmill::test {

class ThreadRanks {
 public:
  explicit ThreadRanks(int size)
      : size_(size), meeting_(size), addresses_(static_cast<size_t>(size)), values_(static_cast<size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(*this, rank));
  }

  // Calls body(rank's communicator) in a thread for each rank.
  template <class Body>
  void run(Body&& body) {
    std::vector<std::jthread> threads;
    for (const auto& rank : ranks_) threads.emplace_back([&body, &rank] { body(*rank); });
  }

 private:
  class Rank final : public Communicator {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.size_; }
    void all_reduce(ExecContext&, const TensorView& values) override {
      reduce(values.ptr<float>(), 0, values.numel(), values.ptr<float>());
    }
    void all_reduce(ExecContext&, double* value) override { *value = sum(*value); }
    void reduce_scatter(ExecContext&, const TensorView& all, const TensorView& own) override {
      reduce(all.ptr<float>(), rank_ * own.numel(), own.numel(), own.ptr<float>());
    }
    void all_gather(ExecContext&, const TensorView& own, const TensorView& all) override {
      exchange(own.data);
      for (int rank = 0; rank < size(); ++rank) {
        std::memcpy(all.ptr<float>() + rank * own.numel(), all_.addresses_[static_cast<size_t>(rank)], own.bytes());
      }
      all_.meeting_.arrive_and_wait();
    }
    void broadcast(ExecContext&, const TensorView& values, int root) override {
      exchange(values.data);
      if (rank_ != root) std::memcpy(values.data, all_.addresses_[static_cast<size_t>(root)], values.bytes());
      all_.meeting_.arrive_and_wait();
    }
    double sum(double value) override {
      const std::vector<double> values = share(value);
      double total = 0;
      for (const double each : values) total += each;
      return total;
    }
    bool any(bool value) override { return sum(value ? 1 : 0) > 0; }
    int64_t agree(int64_t value) override { return static_cast<int64_t>(share(double(value)).front()); }

   private:
    void exchange(const void* address) {
      all_.addresses_[static_cast<size_t>(rank_)] = address;
      all_.meeting_.arrive_and_wait();
    }
    std::vector<double> share(double value) {
      all_.values_[static_cast<size_t>(rank_)] = value;
      all_.meeting_.arrive_and_wait();
      std::vector<double> values = all_.values_;
      all_.meeting_.arrive_and_wait();
      return values;
    }
    // Elements [first, first + count) of every rank's `from`, added in the order of the ranks.
    void reduce(const float* from, int64_t first, int64_t count, float* to) {
      exchange(from);
      std::vector<float> total(static_cast<size_t>(count));
      for (const void* const address : all_.addresses_) {
        for (int64_t i = 0; i < count; ++i)
          total[static_cast<size_t>(i)] += static_cast<const float*>(address)[first + i];
      }
      all_.meeting_.arrive_and_wait();
      std::memcpy(to, total.data(), total.size() * sizeof(float));
    }

    ThreadRanks& all_;
    int rank_;
  };

  int size_;
  std::barrier<> meeting_;
  std::vector<const void*> addresses_;
  std::vector<double> values_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace gradmill::test
