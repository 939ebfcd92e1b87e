// SPDX-License-Identifier: Apache-2.0
#include "ops/partial_sums.h"

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class PartialSumsTest : public OpTest {
 protected:
  PartialSum make(int64_t count, int64_t size, uint32_t seed, float beta) {
    return {.partials = upload(random_values(count * size, seed), {count, size}, DType::fp32),
            .out = upload(random_values(size, seed + 1), {size}, DType::fp32),
            .beta = beta};
  }
  static std::vector<float> expected(const PartialSum& sum) {
    const std::vector<float> partials = download(sum.partials), old = download(sum.out);
    std::vector<float> result;
    for (size_t column = 0; column < old.size(); ++column) {
      double total = double(sum.beta) * old[column];
      for (size_t at = column; at < partials.size(); at += old.size()) total += partials[at];
      result.push_back(static_cast<float>(total));
    }
    return result;
  }
};

// More sums than one launch on a GPU takes, of many sizes; some have nothing to do.
TEST_P(PartialSumsTest, ManyOfAnySize) {
  std::vector<PartialSum> sums;
  std::vector<std::vector<float>> results;
  for (int64_t i = 0; i < 110; ++i) {
    sums.push_back(make(1 + i * 7 % 140, 1 + i * 13 % 100, static_cast<uint32_t>(2 * i), i % 3 == 0 ? 1.0f : 0.0f));
    results.push_back(expected(sums.back()));
    if (i % 10 == 0) sums.back().out = {};
  }
  add_partial_sums(ctx_, sums);
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].out.defined()) continue;
    expect_reduction(download(sums[i].out), results[i], DType::fp32, sums[i].partials.rows() + 1, 4, "sum");
  }
}

// The second sum adds to the result of the first.
TEST_P(PartialSumsTest, OneResultTwice) {
  PartialSum first = make(40, 70, 1, 0), second = make(30, 70, 5, 1);
  second.out = first.out;
  const std::vector<float> alone = expected(first);
  add_partial_sums(ctx_, {{first}});
  expect_reduction(download(first.out), alone, DType::fp32, 40, 4, "first");
  const std::vector<float> both = expected(second);
  const PartialSum together[] = {first, second};
  add_partial_sums(ctx_, together);
  expect_reduction(download(first.out), both, DType::fp32, 70, 4, "both");
}

INSTANTIATE_TEST_SUITE_P(Ops, PartialSumsTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
