// SPDX-License-Identifier: Apache-2.0
// What the driver's management library (NVML) knows about a GPU while it works: load, power, heat, clocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gradmill::cuda {

// Not every GPU reports everything.
struct GpuSample {
  std::optional<double> utilisation;  // 0 to 1: the part of the last moments in which a kernel ran
  std::optional<double> power_watts, power_limit_watts;
  std::optional<double> temperature_celsius;
  std::optional<uint64_t> memory_used_bytes;  // by all processes
  std::optional<double> sm_clock_mhz, memory_clock_mhz;
};

class Nvml {
 public:
  // `index` as CUDA counts the GPUs. Nothing without the library (containers may lack it), without the GPU, or in a
  // build without CUDA.
  static std::optional<Nvml> open(int index);
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  // Takes well under a millisecond and disturbs nothing on the GPU. Nothing if it answers no question any more.
  std::optional<GpuSample> sample();
  // "580.82.07"; empty if it does not say.
  std::string driver_version();

 private:
  struct Impl;
  explicit Nvml(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradmill::cuda
