// SPDX-License-Identifier: Apache-2.0
#include "ops/find_non_finite.h"

#include <cmath>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class FindNonFiniteTest : public OpTest {
 protected:
  int32_t find(const TensorView& x) {
    const TensorView row = tensor({1}, DType::int32);
    find_non_finite(ctx_, x, row);
    return *row.ptr<int32_t>();
  }
};

TEST_P(FindNonFiniteTest, FindsTheFirstRow) {
  for (int64_t cols : {1, 37, 64, 520}) {
    const std::vector<float> good = random_values(300 * cols, 1, 1, dtype());
    EXPECT_EQ(find(upload(good, {300, cols}, dtype())), -1);
    std::vector<float> bad = good;
    for (float value : {NAN, INFINITY, -INFINITY}) {
      bad[static_cast<size_t>(299 * cols)] = value;
      EXPECT_EQ(find(upload(bad, {300, cols}, dtype())), 299);
      bad[static_cast<size_t>(124 * cols - 1)] = value;
      EXPECT_EQ(find(upload(bad, {300, cols}, dtype())), 123);
      bad = good;
    }
  }
}

// Neither an odd start address nor data beside the columns matters.
TEST_P(FindNonFiniteTest, LooksAtItsColumnsOnly) {
  std::vector<float> values(9 * 70, 1.0f);
  values[4 * 70 + 2] = values[5 * 70 + 69] = NAN;
  const TensorView around = upload(values, {9, 70}, dtype());
  EXPECT_EQ(find(around.slice_cols(3, 69)), -1);
  EXPECT_EQ(find(around.slice_cols(3, 70)), 5);
}

INSTANTIATE_TEST_SUITE_P(Ops, FindNonFiniteTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
