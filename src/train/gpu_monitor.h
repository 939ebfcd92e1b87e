// SPDX-License-Identifier: Apache-2.0
// How the GPU does while a run uses it: load, power, heat, memory.
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

  // Knows nothing on a CPU, or where the driver's management library is missing.
  explicit GpuMonitor(const DeviceSpec& device);
  GpuMonitor(Sampler sampler, SecondsClock clock) : sampler_(std::move(sampler)), clock_(std::move(clock)) {}

  // The newest values. `refresh` asks for new ones, which is done at most once a second.
  const GpuMetrics& metrics(bool refresh);

 private:
  Sampler sampler_;
  SecondsClock clock_;
  std::optional<double> last_time_;
  GpuMetrics last_;
};

}  // namespace gradmill
