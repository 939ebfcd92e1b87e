// SPDX-License-Identifier: Apache-2.0
#include "cuda/gpu_runtime.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <map>

#include "core/error.h"
#include "cuda/devices.h"
#include "cuda/engine.h"
#include "cuda/event_profiler.h"
#include "cuda/gemm.h"
#include "cuda/step_graph.h"
#include "cuda/upload_ring.h"

namespace gradmill::cuda {
namespace {

class GpuRuntime : public Runtime {
 public:
  explicit GpuRuntime(const RuntimeOptions& options)
      : capture_(options.capture),
        engine_({.index = options.device.index,
                 .autotune = options.autotune,
                 .tuning_cache = options.tuning_cache,
                 .note = options.note}),
        scalars_(kScalarBytes, 64, false),
        batches_(kFirstBatchBytes, kBatchSlots, true),
        read_memory_(kReadsInFlight * kReadBytes) {
    for (size_t i = 0; i < reads_.size(); ++i) {
      reads_[i] = {make_event(), read_memory_.bytes().subspan(i * kReadBytes, kReadBytes), 0};
    }
  }
  ~GpuRuntime() override { cudaStreamSynchronize(engine_.stream()); }

  void attach(ExecContext& ctx) override { ctx.cuda = &engine_; }

  std::optional<size_t> available_bytes() const override {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return free;
  }

  std::span<std::byte> allocate(size_t bytes) override {
    slab_ = DeviceMemory(bytes);
    check(cudaMemsetAsync(slab_.bytes().data(), 0, bytes, engine_.stream()), "zeroing memory");
    return slab_.bytes();
  }

  std::shared_ptr<std::byte> allocate_shared(size_t bytes) override {
    const auto block = std::make_shared<DeviceMemory>(bytes);
    check(cudaMemsetAsync(block->bytes().data(), 0, bytes, engine_.stream()), "zeroing memory");
    return {block, block->bytes().data()};
  }

  Arena::Poison poison() const override { return poison_device; }

  void reserve_uploads(size_t bytes) override {
    if (bytes <= batches_.slot_bytes()) return;
    engine_.synchronise();
    batches_ = UploadRing(bytes, kBatchSlots, true);
  }

  void upload(void* to, std::span<const std::byte> from) override {
    if (from.size() <= kScalarBytes) return scalars_.upload(engine_.stream(), to, from);
    reserve_uploads(from.size());
    batches_.upload(engine_.stream(), to, from);
  }

  void run(int key, const std::function<void()>& ops) override {
    Captured& captured = captured_[key];
    // The first run makes plans, loads modules and may time algorithms. None of this can be captured.
    if (!capture_ || captured.runs++ == 0) return ops();
    if (!captured.graph.ready()) {
      const std::string failure = captured.graph.capture(engine_.stream(), ops);
      if (!failure.empty()) {
        engine_.note_once("CUDA graphs are off: " + failure);
        capture_ = false;
        return ops();
      }
      // All GEMMs of this key have been timed by now. Saving here keeps the results even if the run is killed later.
      engine_.gemm().save_tuning();
    }
    captured.graph.launch(engine_.stream());
  }

  Read read_later(const void* from, size_t bytes) override {
    assert(bytes <= kReadBytes);
    Slot& slot = reads_[next_read_ % kReadsInFlight];
    slot.size = bytes;
    check(cudaMemcpyAsync(slot.memory.data(), from, bytes, cudaMemcpyDeviceToHost, engine_.stream()), "reading back");
    check(cudaEventRecord(slot.done.get(), engine_.stream()), "reading back");
    return next_read_++;
  }

  std::span<const std::byte> wait(Read read) override {
    assert(read < next_read_ && next_read_ - read <= kReadsInFlight);
    const Slot& slot = reads_[read % kReadsInFlight];
    check(cudaEventSynchronize(slot.done.get()), "waiting for the GPU");
    return slot.memory.first(slot.size);
  }

  std::unique_ptr<OpObserver> make_profiler(Ledger& ledger) override {
    return std::make_unique<EventProfiler>(engine_, ledger);
  }

  double measure_copy_bandwidth() override {
    constexpr int kCopies = 10;
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    const DeviceMemory from(std::min(kCopyBytes, free / 4)), to(from.bytes().size());
    const Event begin = make_event(true), end = make_event(true);
    const auto copy = [&] {
      check(cudaMemcpyAsync(to.bytes().data(), from.bytes().data(), from.bytes().size(), cudaMemcpyDeviceToDevice,
                            engine_.stream()),
            "copying");
    };
    copy();
    check(cudaEventRecord(begin.get(), engine_.stream()), "timing a copy");
    for (int i = 0; i < kCopies; ++i) copy();
    check(cudaEventRecord(end.get(), engine_.stream()), "timing a copy");
    engine_.synchronise();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "timing a copy");
    return 2.0 * kCopies * double(from.bytes().size()) / (double(milliseconds) * 1e-3);
  }

  size_t library_bytes() const override { return engine_.library_bytes() + batches_.device_bytes(); }
  size_t driver_bytes() const override {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return total - free;
  }

 private:
  static constexpr size_t kScalarBytes = 16 * 1024, kFirstBatchBytes = 64 * 1024, kBatchSlots = 8;
  static constexpr size_t kCopyBytes = size_t{1} << 30;  // far larger than any cache
  struct Captured {
    int runs = 0;
    StepGraph graph;
  };
  struct Slot {
    Event done;
    std::span<std::byte> memory;
    size_t size = 0;
  };

  bool capture_;
  Engine engine_;
  DeviceMemory slab_;
  UploadRing scalars_, batches_;
  std::map<int, Captured> captured_;
  PinnedMemory read_memory_;
  std::array<Slot, kReadsInFlight> reads_;
  Read next_read_ = 0;
};

}  // namespace

std::unique_ptr<Runtime> make_runtime(const RuntimeOptions& options) {
  const std::vector<DeviceSpec> present = present_devices();
  const bool is_here = std::ranges::any_of(present, [&](const DeviceSpec& gpu) {
    return gpu.index == options.device.index && gpu.name == options.device.name;
  });
  if (!is_here) {
    throw usage_error(fmt::format("this machine has no {} to run on: {}", options.device.title,
                                  present.empty() ? why_no_gpu() : "the GPU is a " + present.front().title),
                      "use machine.device=auto, or plan for the GPU with 'gradmill plan'");
  }
  return std::make_unique<GpuRuntime>(options);
}

}  // namespace gradmill::cuda
