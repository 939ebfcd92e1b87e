// SPDX-License-Identifier: Apache-2.0
// For builds without CUDA: there are no readings.
#include "cuda/nvml.h"

namespace gradmill::cuda {

struct Nvml::Impl {};

Nvml::Nvml(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;
Nvml::~Nvml() = default;

std::optional<Nvml> Nvml::open(int) { return {}; }
std::optional<GpuSample> Nvml::sample() { return {}; }
std::string Nvml::driver_version() { return {}; }

}  // namespace gradmill::cuda
