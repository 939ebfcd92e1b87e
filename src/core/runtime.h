// SPDX-License-Identifier: Apache-2.0
// Runtime: what a session needs of its device beside ops: the slab, copies in the order of the ops, results read late,
// and sequences of ops that are captured once and replayed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/exec_context.h"

namespace gradmill {

class Runtime {
 public:
  virtual ~Runtime() = default;

  // Gives ops what they need of the device; on paper too.
  virtual void attach(ExecContext& ctx) = 0;
  // Bytes that allocate() can get. Nothing: not known.
  virtual std::optional<size_t> available_bytes() const { return {}; }
  // The one allocation, zeroed. It lives as long as the runtime.
  virtual std::span<std::byte> allocate(size_t bytes) = 0;
  virtual Arena::Poison poison() const = 0;

  // Makes room for uploads of this size, so that none has to while the run goes on.
  virtual void reserve_uploads(size_t) {}
  // Copies to the device between the ops before and after it. `from` may be reused on return.
  virtual void upload(void* to, std::span<const std::byte> from) = 0;

  // Runs `ops`: as they are the first time a key is seen; later, where the device can, as they were captured under that
  // key. So under one key the ops, their addresses and their host-side arguments must always be the same.
  virtual void run(int key, const std::function<void()>& ops) = 0;

  // Remembers `bytes` of device memory as they are behind the ops so far; wait() gives them. At most kReadsInFlight at
  // a time, none over kReadBytes.
  using Read = uint64_t;
  static constexpr int kReadsInFlight = 4;
  static constexpr size_t kReadBytes = 256;
  virtual Read read_later(const void* from, size_t bytes) = 0;
  virtual std::span<const std::byte> wait(Read read) = 0;

  // Times every op that runs while it lives, into `ledger`.
  virtual std::unique_ptr<OpObserver> make_profiler(Ledger& ledger) = 0;

  // Bytes/s read plus bytes/s written of a large copy within the device's memory: what ops that only move data can
  // hope for. Takes memory beside the slab while it runs.
  virtual double measure_copy_bandwidth() = 0;

  // Bytes that libraries took beside the slab, and what the driver says this process and others use. 0: not known.
  virtual size_t library_bytes() const { return 0; }
  virtual size_t driver_bytes() const { return 0; }
};

struct RuntimeOptions {
  DeviceSpec device;
  int num_threads = 1;
  bool capture = false;   // replay ops as graphs
  bool autotune = false;  // time the libraries' algorithms
  std::string tuning_cache;
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

}  // namespace gradmill
