// SPDX-License-Identifier: Apache-2.0
#include "ops/soft_cap.h"

#include <cmath>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class SoftCapTest : public OpTest {};

// Large and tiny values, whole vectors and odd columns, in place and not in place.
TEST_P(SoftCapTest, CapsAndItsSlope) {
  for (float cap : {1.0f, 30.0f}) {
    for (const auto& [first, last] : {std::pair{0, 64}, std::pair{3, 36}}) {
      std::vector<float> values = random_values(7 * 64, 1, 3 * cap, dtype());
      values[5] = 1e-4f, values[6] = 200 * cap, values[7] = -200 * cap, values[8] = 0;
      const TensorView x = upload(values, {7, 64}, dtype()).slice_cols(first, last);
      const TensorView dy = upload(random_values(7 * 64, 2, 1, dtype()), {7, 64}, dtype()).slice_cols(first, last);
      const TensorView y = tensor(x.shape, dtype()), dx = tensor(x.shape, dtype());
      const std::vector<float> from = download(x), grad = download(dy);
      std::vector<float> expected, slopes;
      for (size_t i = 0; i < from.size(); ++i) {
        const double t = std::tanh(double(from[i]) / cap);
        expected.push_back(static_cast<float>(cap * t));
        slopes.push_back(static_cast<float>(grad[i] * (1 - t * t)));
      }
      soft_cap_forward(ctx_, {.x = x, .y = y, .cap = cap});
      soft_cap_backward(ctx_, {.x = x, .dy = dy, .dx = dx, .cap = cap});
      expect_within_ulps(download(y), expected, dtype(), dtype() == DType::fp32 ? 8 : 1, "y");
      // 1 - t² loses digits close to the cap in any implementation.
      const std::vector<float> actual = download(dx);
      for (size_t i = 0; i < actual.size(); ++i) {
        EXPECT_NEAR(actual[i], slopes[i], 1e-6 + epsilon_of(dtype()) * std::fabs(slopes[i])) << i;
      }
      soft_cap_forward(ctx_, {.x = x, .y = x, .cap = cap});
      expect_same_bits(download(x), download(y), "in place");
    }
  }
}

class SoftCapGradients : public OpTest {};
TEST_P(SoftCapGradients, CentralDifferences) {
  const TensorView x = upload(random_values(5 * 37, 3, 2), {5, 37}, DType::fp32);
  const TensorView y = tensor({5, 37}, DType::fp32), dx = tensor({5, 37}, DType::fp32);
  const TensorView dy = upload(random_values(5 * 37, 4), {5, 37}, DType::fp32);
  soft_cap_backward(ctx_, {.x = x, .dy = dy, .dx = dx, .cap = 1.5f});
  const GradientCheck check{
      .forward = [&] { soft_cap_forward(ctx_, {.x = x, .y = y, .cap = 1.5f}); }, .output = y, .doutput = download(dy)};
  expect_gradient(check, x, download(dx), "x");
}

INSTANTIATE_TEST_SUITE_P(Ops, SoftCapGradients, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, SoftCapTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
