// SPDX-License-Identifier: Apache-2.0
#include "train/gpu_monitor.h"

#include <memory>

namespace gradmill {
namespace {

constexpr double kInterval = 1.0;  // seconds; the driver averages over about this time

GpuMonitor::Sampler sampler_of(const DeviceSpec& device) {
  if (device.kind != DeviceKind::cuda) return nullptr;
  std::optional<cuda::Nvml> opened = cuda::Nvml::open(device.index);
  if (!opened) return nullptr;
  // A std::function must be copyable, but an open library is not.
  return [nvml = std::make_shared<cuda::Nvml>(std::move(*opened))] { return nvml->sample(); };
}

}  // namespace

GpuMonitor::GpuMonitor(const DeviceSpec& device) : GpuMonitor(sampler_of(device), monotonic_seconds) {}

const GpuMetrics& GpuMonitor::metrics(bool refresh) {
  if (!refresh || !sampler_) return last_;
  const double now = clock_();
  if (last_time_ && now - *last_time_ < kInterval) return last_;
  last_time_ = now;
  last_ = {};
  if (const std::optional<cuda::GpuSample> sample = sampler_()) {
    last_.utilisation = sample->utilisation.value_or(kUnknown);
    last_.watts = sample->power_watts.value_or(kUnknown);
    last_.celsius = sample->temperature_celsius.value_or(kUnknown);
    last_.memory_bytes = sample->memory_used_bytes.value_or(0);
  }
  return last_;
}

}  // namespace gradmill
