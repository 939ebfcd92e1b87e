// SPDX-License-Identifier: Apache-2.0
#include "support/op_test.h"

#include <cmath>

#include "core/rng.h"

namespace gradmill::test {
namespace {

template <class Visit>
void visit_dtype(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::fp32:
      return visit(float{});
    case DType::bf16:
      return visit(Bf16{});
    case DType::fp16:
      return visit(Fp16{});
    default:
      FAIL() << "no test values of type " << name_of(dtype);
  }
}

float round_to(float value, DType dtype) {
  if (dtype == DType::bf16) return static_cast<float>(Bf16(value));
  if (dtype == DType::fp16) return static_cast<float>(Fp16(value));
  return value;
}

float smallest_normal(DType dtype) { return dtype == DType::fp16 ? 0x1p-14f : 0x1p-126f; }

double norm(std::span<const float> values) {
  double sum = 0;
  for (float value : values) sum += double(value) * value;
  return std::sqrt(sum);
}

}  // namespace

std::string case_name(const testing::TestParamInfo<OpCase>& info) {
  return name_of_device(info.param.device) + "_" + std::string(name_of(info.param.dtype));
}

std::vector<Device> devices_of_build() {
  if (kHasCuda) return {Device::cpu, Device::cuda};
  return {Device::cpu};
}

std::string name_of_device(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  for (Device device : devices_of_build()) {
    for (DType dtype : {DType::fp32, DType::bf16, DType::fp16}) cases.push_back({device, dtype});
  }
  return cases;
}

std::vector<OpCase> fp32_cases() {
  std::vector<OpCase> cases = all_cases();
  std::erase_if(cases, [](const OpCase& one) { return one.dtype != DType::fp32; });
  return cases;
}

std::vector<OpCase> narrow_gpu_cases() {
  std::vector<OpCase> cases = cases_without(DType::fp32);
  std::erase_if(cases, [](const OpCase& one) { return one.device != Device::cuda; });
  return cases;
}

std::vector<OpCase> cases_without(DType dtype) {
  std::vector<OpCase> cases = all_cases();
  std::erase_if(cases, [&](const OpCase& one) { return one.dtype == dtype; });
  return cases;
}

std::vector<float> random_values(int64_t count, uint32_t seed, float scale, DType dtype) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t word = philox(seed, {static_cast<uint32_t>(i), 0, 0, 0})[0];
    values[i] = round_to(scale * (2 * to_uniform(word) - 1), dtype);
  }
  return values;
}

OpTest::OpTest(size_t arena_bytes)
    : device_(make_test_device(GetParam().device, arena_bytes)), reference_device_(arena_bytes) {
  device_->attach(ctx_);
  reference_device_.attach(reference_);
  if (on_gpu() && is_present(Device::cuda)) dump_ = TensorDump::of_environment(ctx_.persistent, ctx_.observer);
  if (dump_ != nullptr) ctx_.observer = dump_.get();
  const TensorView scalars = tensor({static_cast<int64_t>(sizeof(StepScalars))}, DType::int8);
  ctx_.scalars = reference_.scalars = new (scalars.data) StepScalars;
  use_threads(2);
}

OpTest::~OpTest() = default;

void OpTest::SetUp() {
  if (!is_present(GetParam().device)) GTEST_SKIP() << "there is no GPU here";
}

void OpTest::use_threads(int num_threads) {
  pool_ = std::make_unique<cpu::ThreadPool>(num_threads);
  ctx_.pool = reference_.pool = pool_.get();
}

TensorView OpTest::tensor(const Shape& shape, DType dtype) {
  const size_t begin = ctx_.persistent.used();
  const TensorView view = ctx_.alloc(ctx_.persistent, shape, dtype, "test");
  if (dump_ != nullptr) dump_->add(view, begin);
  return view;
}

TensorView OpTest::upload(std::span<const float> values, const Shape& shape, DType dtype) {
  TensorView view = tensor(shape, dtype);
  EXPECT_EQ(view.numel(), static_cast<int64_t>(values.size()));
  visit_dtype(dtype, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) view.ptr<T>()[i] = T(values[i]);
  });
  return view;
}

TensorView OpTest::upload(std::span<const int32_t> values) {
  TensorView view = tensor({static_cast<int64_t>(values.size())}, DType::int32);
  std::copy(values.begin(), values.end(), view.ptr<int32_t>());
  return view;
}

std::vector<float> OpTest::download(const TensorView& view) {
  std::vector<float> values;
  visit_dtype(view.dtype, [&]<class T>(T) {
    for (int64_t r = 0; r < view.rows(); ++r) {
      for (int64_t c = 0; c < view.cols(); ++c) values.push_back(static_cast<float>(view.row<T>(r)[c]));
    }
  });
  return values;
}

void expect_within_ulps(std::span<const float> actual, std::span<const float> expected, DType dtype, float count,
                        const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    const float ulp = epsilon_of(dtype) * std::max(std::fabs(expected[i]), smallest_normal(dtype));
    if (!(std::fabs(actual[i] - expected[i]) <= count * ulp)) {
      ADD_FAILURE() << what << "[" << i << "] is " << actual[i] << ", expected " << expected[i] << " within " << count
                    << " ulp";
      return;
    }
  }
}

void expect_close(std::span<const float> actual, std::span<const float> expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  std::vector<float> difference(actual.size());
  for (size_t i = 0; i < actual.size(); ++i) difference[i] = actual[i] - expected[i];
  const double error = norm(difference), size = norm(expected);
  EXPECT_TRUE(error <= tolerance * size) << what << ": relative error " << error / size << ", allowed " << tolerance;
}

void expect_reduction(std::span<const float> actual, std::span<const float> expected, DType dtype, int64_t terms,
                      double c, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0;
  for (float value : expected) largest = std::max(largest, double(std::fabs(value)));
  const double bound = c * std::sqrt(double(terms)) * epsilon_of(dtype) * largest;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!(std::fabs(double(actual[i]) - expected[i]) <= bound)) {
      ADD_FAILURE() << what << "[" << i << "] is " << actual[i] << ", expected " << expected[i] << " within " << bound;
      return;
    }
  }
}

void expect_same_bits(std::span<const float> actual, std::span<const float> expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::bit_cast<uint32_t>(actual[i]) != std::bit_cast<uint32_t>(expected[i])) {
      ADD_FAILURE() << what << "[" << i << "] is " << actual[i] << ", expected the bits of " << expected[i];
      return;
    }
  }
}

void expect_gradient(const GradientCheck& check, const TensorView& input, std::span<const float> analytic,
                     const std::string& what) {
  ASSERT_EQ(static_cast<int64_t>(analytic.size()), input.numel()) << what;
  const auto loss = [&] {
    check.forward();
    double sum = 0;
    size_t i = 0;
    for (int64_t r = 0; r < check.output.rows(); ++r) {
      for (int64_t c = 0; c < check.output.cols(); ++c)
        sum += double(check.output.row<float>(r)[c]) * check.doutput[i++];
    }
    return sum;
  };
  const int64_t stride = std::max<int64_t>(1, input.numel() / 64);
  std::vector<float> numeric, sampled;
  for (int64_t i = 0; i < input.numel(); i += stride) {
    float& element = input.row<float>(i / input.cols())[i % input.cols()];
    const float original = element;
    element = original + static_cast<float>(check.step);
    const float above = element;
    const double plus = loss();
    element = original - static_cast<float>(check.step);
    const double minus = loss();
    numeric.push_back(static_cast<float>((plus - minus) / (double(above) - element)));
    sampled.push_back(analytic[static_cast<size_t>(i)]);
    element = original;
  }
  check.forward();
  expect_close(sampled, numeric, check.tolerance, "gradient of " + what);
}

}  // namespace gradmill::test
