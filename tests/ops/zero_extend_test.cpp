// SPDX-License-Identifier: Apache-2.0
#include "ops/zero_extend.h"

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class ZeroExtendTest : public OpTest {};

struct Extension {
  int64_t from, to, offset;  // elements of the buffer before `from`
};
// Rows of zeros after a weight; an end within a vector, at a vector's end, and far before the last block; nothing to
// add; nothing to copy; no vectors.
constexpr Extension kExtensions[] = {{65 * 24, 72 * 24, 0}, {13, 16, 0}, {16, 24, 0}, {5, 40000, 0},
                                     {4096, 4096, 0},       {0, 8, 0},   {65, 72, 3}, {65, 71, 0}};

TEST_P(ZeroExtendTest, CopiesAndClearsWhatFollows) {
  for (const Extension& size : kExtensions) {
    for (int threads : {1, 3}) {
      const ArenaScope scope(ctx_.persistent);
      use_threads(threads);
      const std::vector<float> values = random_values(size.offset + size.from, 1, 1, dtype());
      std::vector<float> expected(values.begin() + size.offset, values.end());
      expected.resize(static_cast<size_t>(size.to), 0.0f);
      const TensorView around = upload(values, {size.offset + size.from}, dtype());
      const TensorView to = tensor({size.to}, dtype());
      zero_extend(ctx_, {.from = around.slice_rows(size.offset, size.offset + size.from), .to = to});
      expect_same_bits(download(to), expected, "extended");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ZeroExtendTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
