// SPDX-License-Identifier: Apache-2.0
#include "ops/label_loss.h"

#include <cmath>
#include <numeric>

#include "ops/cross_entropy/cross_entropy.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kSeqs = 6;
// The third sequence is empty.
const std::vector<int32_t> kOffsets = {0, 4, 5, 5, 9, 11, 12};

class LabelLossTest : public OpTest {
 protected:
  LabelLossTest() {
    scalars().inv_targets = 0.25f;
    scalars().loss_scale = 8;
  }

  // Rows in the middle of wider ones.
  TensorView logits(int64_t labels) {
    return upload(random_values(kSeqs * (labels + 5), 1, 4), {kSeqs, labels + 5}, DType::fp32)
        .slice_cols(2, labels + 2);
  }
};

TEST_P(LabelLossTest, CrossEntropyWithClassWeights) {
  for (int64_t labels : {2, 3, 100}) {
    for (bool weighted : {false, true}) {
      const std::vector<int32_t> targets = {1, 0, 1, kIgnoredTarget, static_cast<int32_t>(labels - 1), 0};
      const std::vector<float> weights = random_values(labels, 7);
      const TensorView z = logits(labels), losses = tensor({kSeqs}, DType::fp32);
      const std::vector<float> values = download(z);
      LabelLossArgs args{.logits = z,
                         .targets = upload(targets),
                         .cu = upload(kOffsets),
                         .class_weights = {},
                         .losses = losses,
                         .write_grad = false};
      if (weighted) args.class_weights = upload(weights, {labels}, DType::fp32);
      label_loss(ctx_, args);
      expect_same_bits(download(z), values, "logits without a gradient");
      args.write_grad = true;
      label_loss(ctx_, args);

      std::vector<float> expected(size_t(kSeqs), 0), slopes(values.size(), 0);
      for (size_t s = 0; s < size_t(kSeqs); ++s) {
        if (s == 2 || targets[s] == kIgnoredTarget) continue;
        const float* row = values.data() + s * size_t(labels);
        double sum = 0;
        for (int64_t i = 0; i < labels; ++i) sum += std::exp(double(row[i]));
        const double weight = weighted ? weights[size_t(targets[s])] : 1.0;
        expected[s] = static_cast<float>(weight * (std::log(sum) - row[targets[s]]));
        for (int64_t i = 0; i < labels; ++i) {
          slopes[s * size_t(labels) + size_t(i)] =
              static_cast<float>(weight * (std::exp(double(row[i])) / sum - (i == targets[s])) * 2);
        }
      }
      expect_close(download(losses), expected, 1e-6, "losses");
      expect_close(download(z), slopes, 1e-6, "gradient");
    }
  }
}

TEST_P(LabelLossTest, OneLabelIsASquaredError) {
  const TensorView z = logits(1), losses = tensor({kSeqs}, DType::fp32);
  const std::vector<float> values = download(z), targets = random_values(kSeqs, 3);
  label_loss(ctx_, {.logits = z,
                    .targets = upload(targets, {kSeqs}, DType::fp32),
                    .cu = upload(kOffsets),
                    .class_weights = {},
                    .losses = losses});
  std::vector<float> expected, slopes;
  for (size_t s = 0; s < size_t(kSeqs); ++s) {
    const float error = s == 2 ? 0 : values[s] - targets[s];
    expected.push_back(error * error);
    slopes.push_back(2 * error * 2);
  }
  expect_close(download(losses), expected, 1e-6, "losses");
  expect_close(download(z), slopes, 1e-6, "gradient");
}

INSTANTIATE_TEST_SUITE_P(Ops, LabelLossTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
