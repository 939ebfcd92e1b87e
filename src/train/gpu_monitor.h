// SPDX-License-Identifier: Apache-2.0
// The state of the GPU during a run: load, power, temperature, memory.
#pragma once

#include <functional>
#include <optional>

#include "core/device_spec.h"
#include "cuda/nvml.h"
#include "metrics/clock.h"
#include "metrics/record.h"

namespace gradmill {

class GpuMonitor {
 public:
  using Sampler = std::function<std::optional<cuda::GpuSample>()>;

  // Has no values on a CPU, or if the driver's management library is missing.
  explicit GpuMonitor(const DeviceSpec& device);
  GpuMonitor(Sampler sampler, SecondsClock clock) : sampler_(std::move(sampler)), clock_(std::move(clock)) {}

  // The newest values. `refresh` asks for new ones, at most once a second.
  const GpuMetrics& metrics(bool refresh);

 private:
  Sampler sampler_;
  SecondsClock clock_;
  std::optional<double> last_time_;
  GpuMetrics last_;
};

}  // namespace gradmill
