// SPDX-License-Identifier: Apache-2.0
// The device a test runs on, with memory that the host can access as well.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill::test {

// Whether this build and machine can run tests on the device.
bool is_present(Device device);

// The device as a session sees it: the first GPU, or this machine's CPU.
DeviceSpec test_device_spec(Device device);
std::vector<Device> devices_of_build();
std::string name_of_device(Device device);

class TestDevice {
 public:
  virtual ~TestDevice() = default;
  // Gives `ctx` the device, poisoned arenas of `bytes` each, and an observer that waits for every op.
  virtual void attach(ExecContext& ctx) = 0;
};

// Arenas of `bytes` each: persistent and saved in memory that host and device can access, scratch in device memory.
std::unique_ptr<TestDevice> make_test_device(Device device, size_t bytes);

}  // namespace gradmill::test
