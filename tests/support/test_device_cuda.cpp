// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "cuda/devices.h"
#include "cuda/engine.h"
#include "support/test_device_cpu.h"

namespace gradmill::test {
namespace {

// GRADMILL_TEST_CAPABILITY=86 tests the kernels that a GPU of compute capability 8.6 would run. Returns 0 if it is not
// set.
int tested_capability() {
  const char* const text = std::getenv("GRADMILL_TEST_CAPABILITY");
  return text != nullptr ? std::atoi(text) : 0;
}

class CudaTestDevice : public TestDevice {
 public:
  explicit CudaTestDevice(size_t bytes) : persistent_(bytes), saved_(bytes), scratch_(bytes) {}
  void attach(ExecContext& ctx) override {
    ctx.device = cuda::present_devices().front();
    ctx.device.compute_capability = engine().compute_capability();
    ctx.cuda = &engine();
    ctx.observer = &wait_;
    ctx.persistent.attach(persistent_.bytes());
    ctx.saved.attach(saved_.bytes());
    ctx.scratch.attach(scratch_.bytes());
    ctx.persistent.set_poison(poison_host);
    ctx.saved.set_poison(poison_host);
    ctx.scratch.set_poison(cuda::poison_device);
  }

 private:
  // One engine for all tests, because opening the libraries takes longer than the tests.
  static cuda::Engine& engine() {
    static cuda::Engine shared{cuda::EngineOptions{.chosen_for = tested_capability()}};
    return shared;
  }
  cuda::PinnedMemory persistent_, saved_;
  cuda::DeviceMemory scratch_;
  cuda::SynchroniseEachOp wait_{engine()};
};

}  // namespace

bool is_present(Device device) { return device == Device::cpu || !cuda::present_devices().empty(); }

DeviceSpec test_device_spec(Device device) {
  return device == Device::cuda && is_present(device) ? cuda::present_devices().front() : host_cpu();
}

std::unique_ptr<TestDevice> make_test_device(Device device, size_t bytes) {
  if (device == Device::cpu || !is_present(device)) return std::make_unique<CpuTestDevice>(bytes);
  return std::make_unique<CudaTestDevice>(bytes);
}

}  // namespace gradmill::test
