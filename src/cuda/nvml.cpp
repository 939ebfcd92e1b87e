// SPDX-License-Identifier: Apache-2.0
#include "cuda/nvml.h"

#include <cuda_runtime_api.h>

#include <array>

#include "cuda/library.h"

namespace gradmill::cuda {
namespace {

// The few types and values of nvml.h that we use. They are part of the driver's stable interface.
using Status = int;
constexpr Status kSuccess = 0;
using DeviceHandle = struct nvmlDevice_st*;
struct Utilisation {
  unsigned gpu, memory;  // in percent
};
struct MemoryInfo {
  unsigned long long total, free, used;  // in bytes
};
constexpr int kSensorGpu = 0, kClockSm = 1, kClockMemory = 2;

}  // namespace

struct Nvml::Impl {
  Library library = Library::open({"libnvidia-ml.so.1"});
  Status (*init)() = function<Status()>("nvmlInit_v2");
  Status (*shutdown)() = function<Status()>("nvmlShutdown");
  Status (*driver_version)(char*, unsigned) = function<Status(char*, unsigned)>("nvmlSystemGetDriverVersion");
  Status (*find)(const char*,
                 DeviceHandle*) = function<Status(const char*, DeviceHandle*)>("nvmlDeviceGetHandleByPciBusId_v2");
  Status (*utilisation)(DeviceHandle,
                        Utilisation*) = function<Status(DeviceHandle, Utilisation*)>("nvmlDeviceGetUtilizationRates");
  Status (*power)(DeviceHandle, unsigned*) = function<Status(DeviceHandle, unsigned*)>("nvmlDeviceGetPowerUsage");
  Status (*power_limit)(DeviceHandle,
                        unsigned*) = function<Status(DeviceHandle, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit");
  Status (*temperature)(DeviceHandle, int,
                        unsigned*) = function<Status(DeviceHandle, int, unsigned*)>("nvmlDeviceGetTemperature");
  Status (*memory)(DeviceHandle, MemoryInfo*) = function<Status(DeviceHandle, MemoryInfo*)>("nvmlDeviceGetMemoryInfo");
  Status (*clock)(DeviceHandle, int,
                  unsigned*) = function<Status(DeviceHandle, int, unsigned*)>("nvmlDeviceGetClockInfo");
  DeviceHandle device = nullptr;
  bool started = false;

  ~Impl() {
    if (started && shutdown) shutdown();
  }

  // A function of the library. Null if this driver does not have it; calls then return nothing.
  template <class Signature>
  Signature* function(const char* name) const {
    return library.function<Signature>(name);
  }

  // The number that `query(args..., &number)` returns, times `unit`.
  template <class Query, class... Args>
  static std::optional<double> number(double unit, Query query, Args... args) {
    unsigned value = 0;
    if (query == nullptr || query(args..., &value) != kSuccess) return {};
    return unit * value;
  }
};

Nvml::Nvml(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;
Nvml::~Nvml() = default;

std::optional<Nvml> Nvml::open(int index) {
  // CUDA_VISIBLE_DEVICES renumbers CUDA's GPUs but not NVML's, so the GPU is identified by its bus address.
  std::array<char, 32> bus_id{};
  if (cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), index) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  auto impl = std::make_unique<Impl>();
  impl->started = impl->init && impl->init() == kSuccess;
  if (!impl->started || !impl->find || impl->find(bus_id.data(), &impl->device) != kSuccess) return {};
  return Nvml(std::move(impl));
}

std::optional<GpuSample> Nvml::sample() {
  const Impl& nvml = *impl_;
  GpuSample sample;
  if (Utilisation rates{}; nvml.utilisation && nvml.utilisation(nvml.device, &rates) == kSuccess)
    sample.utilisation = rates.gpu / 100.0;
  if (MemoryInfo memory{}; nvml.memory && nvml.memory(nvml.device, &memory) == kSuccess)
    sample.memory_used_bytes = memory.used;
  sample.power_watts = Impl::number(1e-3, nvml.power, nvml.device);
  sample.power_limit_watts = Impl::number(1e-3, nvml.power_limit, nvml.device);
  sample.temperature_celsius = Impl::number(1, nvml.temperature, nvml.device, kSensorGpu);
  sample.sm_clock_mhz = Impl::number(1, nvml.clock, nvml.device, kClockSm);
  sample.memory_clock_mhz = Impl::number(1, nvml.clock, nvml.device, kClockMemory);
  const bool any = sample.utilisation || sample.memory_used_bytes || sample.power_watts || sample.temperature_celsius ||
                   sample.sm_clock_mhz || sample.memory_clock_mhz;
  if (!any) return {};
  return sample;
}

std::string Nvml::driver_version() {
  std::array<char, 96> text{};
  if (!impl_->driver_version || impl_->driver_version(text.data(), static_cast<unsigned>(text.size())) != kSuccess)
    return {};
  return text.data();
}

}  // namespace gradmill::cuda
