// SPDX-License-Identifier: Apache-2.0
// For builds without CUDA: only the CPU is tested.
#include "support/test_device_cpu.h"

namespace gradmill::test {

bool is_present(Device device) { return device == Device::cpu; }

DeviceSpec test_device_spec(Device) { return host_cpu(); }

std::unique_ptr<TestDevice> make_test_device(Device, size_t bytes) { return std::make_unique<CpuTestDevice>(bytes); }

}  // namespace gradmill::test
