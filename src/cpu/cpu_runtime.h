// SPDX-License-Identifier: Apache-2.0
// The runtime for the CPU. Everything a call asks for is done when it returns.
#pragma once

#include <array>

#include "core/host_memory.h"
#include "core/op_profiler.h"
#include "core/runtime.h"
#include "core/storage.h"
#include "cpu/thread_pool.h"

namespace gradmill::cpu {

class CpuRuntime : public Runtime {
 public:
  explicit CpuRuntime(const RuntimeOptions& options) : pool_(options.num_threads) {}

  void attach(ExecContext& ctx) override { ctx.pool = &pool_; }
  std::optional<size_t> available_bytes() const override { return available_host_memory(); }
  std::span<std::byte> allocate(size_t bytes) override;
  std::shared_ptr<std::byte> allocate_shared(size_t bytes) override;
  Arena::Poison poison() const override { return poison_host; }
  void upload(void* to, std::span<const std::byte> from) override;
  void run(int, const std::function<void()>& ops) override { ops(); }
  Read read_later(const void* from, size_t bytes) override;
  std::span<const std::byte> wait(Read read) override;
  std::unique_ptr<OpObserver> make_profiler(Ledger& ledger) override { return std::make_unique<OpProfiler>(ledger); }
  double measure_copy_bandwidth() override;

 private:
  ThreadPool pool_;
  Storage slab_;
  struct Slot {
    std::array<std::byte, kReadBytes> bytes;
    size_t size = 0;
  };
  std::array<Slot, kReadsInFlight> reads_;
  Read next_read_ = 0;
};

}  // namespace gradmill::cpu
