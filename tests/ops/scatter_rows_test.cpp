// SPDX-License-Identifier: Apache-2.0
#include "ops/scatter_rows.h"

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class ScatterRowsTest : public OpTest {};

// Strided on both sides. Rows that no index names, and data beside the columns, must not change.
TEST_P(ScatterRowsTest, WritesTheNamedRowsAndNothingElse) {
  const std::vector<float> values = random_values(3 * 50, 1, 1, dtype());
  std::vector<float> expected(7 * 40, 7);
  const std::vector<int32_t> indices = {5, 0, 6};
  for (size_t row = 0; row < indices.size(); ++row) {
    const size_t to = static_cast<size_t>(indices[row]) * 40 + 2;
    for (size_t col = 0; col < 33; ++col) expected[to + col] = values[row * 50 + 9 + col];
  }
  const TensorView around = upload(std::vector<float>(7 * 40, 7), {7, 40}, dtype());
  scatter_rows(ctx_, {.from = upload(values, {3, 50}, dtype()).slice_cols(9, 42),
                      .indices = upload(indices),
                      .to = around.slice_cols(2, 35)});
  expect_same_bits(download(around), expected, "scattered");
}

TEST_P(ScatterRowsTest, BitsDoNotDependOnThreads) {
  constexpr int64_t kRows = 301, kCols = 257;
  const std::vector<float> values = random_values(kRows * kCols, 2, 1, dtype());
  std::vector<int32_t> indices;
  std::vector<float> expected(values.size());
  for (int64_t row = 0; row < kRows; ++row) {
    const int64_t to = row * 100 % kRows;  // 301 is coprime to 100
    indices.push_back(static_cast<int32_t>(to));
    std::copy_n(values.begin() + row * kCols, kCols, expected.begin() + to * kCols);
  }
  const TensorView from = upload(values, {kRows, kCols}, dtype()), where = upload(indices);
  for (int threads : {1, 2, 3, 7}) {
    use_threads(threads);
    const TensorView to = tensor({kRows, kCols}, dtype());
    scatter_rows(ctx_, {.from = from, .indices = where, .to = to});
    expect_same_bits(download(to), expected, "scattered");
  }
}

// Rows of whole vectors on both sides, like the keys of a packed projection.
TEST_P(ScatterRowsTest, AlignedColumns) {
  const TensorView packed = upload(random_values(21 * 192, 3, 1, dtype()), {21, 192}, dtype());
  std::vector<int32_t> indices;
  for (int32_t row = 0; row < 21; ++row) indices.push_back(40 - row);
  const ScatterRowsArgs args{.from = packed.slice_cols(64, 128),
                             .indices = upload(indices),
                             .to = upload(std::vector<float>(41 * 64), {41, 64}, dtype())};
  ScatterRowsArgs expected = args;
  expected.to = upload(std::vector<float>(41 * 64), {41, 64}, dtype());
  scatter_rows(ctx_, args);
  scatter_rows(reference_, expected);
  expect_same_bits(download(args.to), download(expected.to), "scattered");
}

INSTANTIATE_TEST_SUITE_P(Ops, ScatterRowsTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
