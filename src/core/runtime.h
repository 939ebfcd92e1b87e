// SPDX-License-Identifier: Apache-2.0
// Runtime: what a session needs from its device besides ops: the slab, copies ordered with the ops, results read later,
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

  // Gives ops what they need from the device, also during a dry run.
  virtual void attach(ExecContext& ctx) = 0;
  // The number of bytes that allocate() can get, or nothing if it is unknown.
  virtual std::optional<size_t> available_bytes() const { return {}; }
  // Allocates the slab, zeroed. Called once; the memory lives as long as the runtime.
  virtual std::span<std::byte> allocate(size_t bytes) = 0;
  // Zeroed memory beside it, which may outlive the runtime: for what several sessions read.
  virtual std::shared_ptr<std::byte> allocate_shared(size_t bytes) = 0;
  virtual Arena::Poison poison() const = 0;

  // Reserves space for uploads of this size, so that no upload has to allocate during the run.
  virtual void reserve_uploads(size_t) {}
  // Copies to the device, ordered between the ops before and after it. `from` may be reused on return.
  virtual void upload(void* to, std::span<const std::byte> from) = 0;

  // Runs `ops` directly the first time a key is seen. Later, if the device supports it, replays what was captured under
  // that key. All calls with the same key must therefore run the same ops with the same addresses and host-side
  // arguments.
  virtual void run(int key, const std::function<void()>& ops) = 0;

  // Starts reading `bytes` of device memory as they are after the ops issued so far; wait() returns them. At most
  // kReadsInFlight reads may be pending, none larger than kReadBytes.
  using Read = uint64_t;
  static constexpr int kReadsInFlight = 4;
  static constexpr size_t kReadBytes = 256;
  virtual Read read_later(const void* from, size_t bytes) = 0;
  virtual std::span<const std::byte> wait(Read read) = 0;

  // Adds the time of every op that runs during its lifetime to `ledger`.
  virtual std::unique_ptr<OpObserver> make_profiler(Ledger& ledger) = 0;

  // Bytes/s read plus bytes/s written by a large copy within device memory: the upper limit for ops that only move
  // data. Takes memory outside the slab while it runs.
  virtual double measure_copy_bandwidth() = 0;

  // The bytes that libraries took outside the slab, and the bytes that this process and others use according to the
  // driver. 0 means unknown.
  virtual size_t library_bytes() const { return 0; }
  virtual size_t driver_bytes() const { return 0; }
};

struct RuntimeOptions {
  DeviceSpec device;
  int num_threads = 1;
  bool capture = false;   // replays ops as graphs
  bool autotune = false;  // times the algorithms of the libraries and takes the fastest
  std::string tuning_cache;
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

}  // namespace gradmill
