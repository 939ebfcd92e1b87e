// SPDX-License-Identifier: Apache-2.0
// Readings of a GPU at work from the driver's management library (NVML): load, power, temperature, clocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gradmill::cuda {

// Fields are empty if the GPU does not report them.
struct GpuSample {
  std::optional<double> utilisation;  // 0 to 1: the fraction of the last sample period in which a kernel ran
  std::optional<double> power_watts, power_limit_watts;
  std::optional<double> temperature_celsius;
  std::optional<uint64_t> memory_used_bytes;  // used by all processes
  std::optional<double> sm_clock_mhz, memory_clock_mhz;
};

class Nvml {
 public:
  // `index` is CUDA's number of the GPU. Returns nothing without the library (containers may lack it), without the GPU,
  // or in a build without CUDA.
  static std::optional<Nvml> open(int index);
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  // Takes well under a millisecond and does not disturb the GPU. Returns nothing once the library no longer responds.
  std::optional<GpuSample> sample();
  // For example "580.82.07"; empty if unknown.
  std::string driver_version();

 private:
  struct Impl;
  explicit Nvml(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradmill::cuda
