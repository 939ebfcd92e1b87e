// SPDX-License-Identifier: Apache-2.0
// The fixture of all op tests: a context with poisoned arenas, random values, comparisons and gradient checks. A test
// body is written once and run for each device and dtype.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/exec_context.h"
#include "core/run_op.h"
#include "cpu/thread_pool.h"
#include "support/tensor_dump.h"
#include "support/test_device_cpu.h"

namespace gradmill::test {

struct OpCase {
  Device device;
  DType dtype;
};
std::string case_name(const testing::TestParamInfo<OpCase>& info);

// Every device and dtype of this build. Cases for a GPU are reported as skipped if there is none.
std::vector<OpCase> all_cases();
std::vector<OpCase> fp32_cases();
// On a GPU in 16 bits, for sizes that exercise only its special kernels. Empty in a build without CUDA.
std::vector<OpCase> narrow_gpu_cases();
// The cases of all_cases() with another dtype.
std::vector<OpCase> cases_without(DType dtype);

// Values in [-scale, scale], rounded to `dtype`; a function of the seed.
std::vector<float> random_values(int64_t count, uint32_t seed, float scale = 1, DType dtype = DType::fp32);

// Tensors of a test are in memory that both host and device can access (page-locked memory for a GPU); scratch is in
// device memory. Every op has finished when it returns. So a test body reads and writes values by pointer on every
// device.
class OpTest : public testing::TestWithParam<OpCase> {
 protected:
  explicit OpTest(size_t arena_bytes = size_t{8} << 20);
  ~OpTest() override;
  void SetUp() override;

  // Poisoned memory that lives until the end of the test.
  TensorView tensor(const Shape& shape, DType dtype);
  // Copies the values to a tensor of `dtype`.
  TensorView upload(std::span<const float> values, const Shape& shape, DType dtype);
  TensorView upload(std::span<const int32_t> values);
  static std::vector<float> download(const TensorView& view);

  // Replaces the thread pools of both contexts.
  void use_threads(int num_threads);

  DType dtype() const { return GetParam().dtype; }
  bool on_gpu() const { return GetParam().device == Device::cuda; }

  StepScalars& scalars() const { return *ctx_.scalars; }

  ExecContext ctx_;
  // A CPU context over the same tensors and scalars. Results of all other devices and dtypes are compared with it, in
  // fp32.
  ExecContext reference_;

 private:
  std::unique_ptr<TestDevice> device_;
  CpuTestDevice reference_device_;
  std::unique_ptr<cpu::ThreadPool> pool_;
  std::unique_ptr<TensorDump> dump_;  // null unless requested
};

// |a - b| <= count ulps of `dtype` at b (near 0, of its smallest normal number), element by element. NaN always fails.
void expect_within_ulps(std::span<const float> actual, std::span<const float> expected, DType dtype, float count,
                        const std::string& what);
// ‖a - b‖ <= tolerance * ‖b‖. NaN always fails.
void expect_close(std::span<const float> actual, std::span<const float> expected, double tolerance,
                  const std::string& what);
// The bound for a sum of `terms` products rounded in `dtype`: c * sqrt(terms) * eps, relative to the largest
// |expected|.
void expect_reduction(std::span<const float> actual, std::span<const float> expected, DType dtype, int64_t terms,
                      double c, const std::string& what);
void expect_same_bits(std::span<const float> actual, std::span<const float> expected, const std::string& what);

// Central differences in fp32: moves each element of `input` (at most 64, evenly spread), runs `forward` and sums
// output * doutput in double. Passes if ‖difference‖ <= tolerance * ‖numeric‖ over those elements.
struct GradientCheck {
  std::function<void()> forward;
  TensorView output;  // written by `forward`
  std::vector<float> doutput;
  double step = 1e-2;
  double tolerance = 5e-3;
};
void expect_gradient(const GradientCheck& check, const TensorView& input, std::span<const float> analytic,
                     const std::string& what);

}  // namespace gradmill::test
