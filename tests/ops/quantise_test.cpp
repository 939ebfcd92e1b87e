// SPDX-License-Identifier: Apache-2.0
#include "ops/quantise.h"

#include <algorithm>
#include <cmath>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr std::pair<int64_t, int64_t> kSizes[] = {{1, 1}, {3, 45}, {7, 8}, {37, 64}, {5, 1023}, {130, 264}, {9, 4096}};

class QuantiseTest : public OpTest {
 protected:
  QuantiseArgs make(WeightFormat format, const TensorView& values) {
    const QuantisedShapes shapes = quantised_shapes(format, values.rows(), values.cols());
    return {.values = values,
            .codes = tensor(shapes.codes, DType::int8),
            .scales = tensor(shapes.scales, DType::fp32),
            .format = format};
  }
  static std::vector<int8_t> codes_of(const QuantiseArgs& args) {
    return {args.codes.ptr<int8_t>(), args.codes.ptr<int8_t>() + args.codes.numel()};
  }
};

// Every device must give the codes, scales and values of the CPU.
TEST_P(QuantiseTest, CodesScalesAndValues) {
  for (WeightFormat format : {WeightFormat::int8, WeightFormat::nf4}) {
    for (auto [rows, cols] : kSizes) {
      SCOPED_TRACE(Shape({rows, cols}).str());
      const ArenaScope scope(ctx_.persistent);
      std::vector<float> values = random_values(rows * cols, 1, 0.1f, dtype());
      if (rows > 2) std::fill_n(values.begin(), cols, 0.0f);
      const TensorView x = upload(values, {rows, cols}, dtype());
      const QuantiseArgs args = make(format, x), expected = make(format, x);
      quantise(ctx_, args);
      quantise(reference_, expected);
      EXPECT_EQ(codes_of(args), codes_of(expected));
      expect_same_bits(download(args.scales), download(expected.scales), "scales");
      QuantiseArgs back = args, reference = expected;
      back.values = tensor({rows, cols}, dtype());
      reference.values = tensor({rows, cols}, dtype());
      dequantise(ctx_, back);
      dequantise(reference_, reference);
      expect_same_bits(download(back.values), download(reference.values), "values");
    }
  }
}

TEST_P(QuantiseTest, ErrorsStayWithinHalfAStep) {
  for (auto [rows, cols] : kSizes) {
    const ArenaScope scope(ctx_.persistent);
    const std::vector<float> values = random_values(rows * cols, 2, 0.1f, dtype());
    const TensorView x = upload(values, {rows, cols}, dtype());
    for (WeightFormat format : {WeightFormat::int8, WeightFormat::nf4}) {
      QuantiseArgs args = make(format, x);
      quantise(ctx_, args);
      args.values = tensor({rows, cols}, dtype());
      dequantise(ctx_, args);
      const std::vector<float> back = download(args.values), scales = download(args.scales);
      for (size_t i = 0; i < back.size(); ++i) {
        // nf4's widest gap is 0.3039 of the block's largest value.
        const bool int8 = format == WeightFormat::int8;
        const float step = int8 ? scales[i / size_t(cols)] : scales[i / 64] * 0.3039f;
        EXPECT_LE(std::abs(back[i] - values[i]), step / 2 + std::abs(values[i]) * epsilon_of(dtype()) + 1e-7f);
      }
    }
  }
}

// The quantiles are preserved: each is its own nearest code, and the first element is in the high half of its byte.
TEST_P(QuantiseTest, Nf4HoldsItsQuantiles) {
  std::vector<float> values(kNf4Values, kNf4Values + 16);
  const TensorView x = upload(values, {1, 16}, dtype());
  const QuantiseArgs args = make(WeightFormat::nf4, x);
  quantise(ctx_, args);
  const std::vector<int8_t> codes = codes_of(args);
  for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(uint8_t(codes[i]), 2 * i << 4 | (2 * i + 1));
}

INSTANTIATE_TEST_SUITE_P(Ops, QuantiseTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
