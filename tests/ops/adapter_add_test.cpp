// SPDX-License-Identifier: Apache-2.0
#include "ops/adapter_add.h"

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class AdapterAddTest : public OpTest {
 protected:
  AdapterAddTest() { ctx_.kernels.tf32 = false; }

  // Computed in double precision from the rounded inputs of the op.
  static std::vector<float> expected_of(const AdapterAddArgs& args) {
    const std::vector<float> y = download(args.y), h = download(args.h), b = download(args.b);
    const auto optional = [](const TensorView& view) { return view.defined() ? download(view) : std::vector<float>{}; };
    const std::vector<float> gain = optional(args.gain), bias = optional(args.bias);
    const int64_t rank = args.h.cols(), cols = args.y.cols();
    std::vector<float> result;
    for (int64_t r = 0; r < args.y.rows(); ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < rank; ++k) sum += double(h[size_t(r * rank + k)]) * b[size_t(c * rank + k)];
        double value = y[size_t(r * cols + c)] + args.scale * sum;
        if (!gain.empty()) value *= gain[size_t(c)];
        if (!bias.empty()) value += bias[size_t(c)];
        result.push_back(static_cast<float>(value));
      }
    }
    return result;
  }

  AdapterAddArgs make(int64_t rows, int64_t cols, int64_t rank, bool dora) {
    AdapterAddArgs args{.y = upload(random_values(rows * cols, 1, 1, dtype()), {rows, cols}, dtype()),
                        .h = upload(random_values(rows * rank, 2, 1, dtype()), {rows, rank}, dtype()),
                        .b = upload(random_values(cols * rank, 3, 1, dtype()), {cols, rank}, dtype()),
                        .scale = 0.75f};
    if (dora) {
      args.gain = upload(random_values(cols, 4, 2), {cols}, DType::fp32);
      args.bias = upload(random_values(cols, 5, 1, dtype()), {cols}, dtype());
      args.kept = tensor({rows, cols}, dtype());
    }
    return args;
  }

  void expect_result(const AdapterAddArgs& args, const std::vector<float>& expected) {
    expect_reduction(download(args.y), expected, dtype(), dtype() == DType::fp32 ? args.h.cols() + 2 : 1, 1, "y");
    if (args.kept.defined()) expect_same_bits(download(args.kept), download(args.y), "kept");
  }
};

TEST_P(AdapterAddTest, EveryRankAndSize) {
  for (int64_t rank : {1, 2, 5, 8, 16, 24, 33, 64, 100, 128, 136}) {
    for (auto [rows, cols] : {std::pair<int64_t, int64_t>{1, 9}, {3, 45}, {67, 264}, {130, 72}, {16, 512}}) {
      for (bool dora : {false, true}) {
        SCOPED_TRACE(Shape({rows, cols, rank, dora}).str());
        const ArenaScope scope(ctx_.persistent);
        const AdapterAddArgs args = make(rows, cols, rank, dora);
        const std::vector<float> expected = expected_of(args);
        adapter_add(ctx_, args);
        expect_result(args, expected);
      }
    }
  }
}

// Slices of a fused projection: columns of y, h and `kept`, at aligned and at odd offsets.
TEST_P(AdapterAddTest, ColumnSlices) {
  for (auto [begin, end, rank_begin] : {std::tuple<int64_t, int64_t, int64_t>{64, 160, 16}, {61, 158, 15}}) {
    const TensorView y = upload(random_values(70 * 200, 1, 1, dtype()), {70, 200}, dtype());
    const TensorView h = upload(random_values(70 * 48, 2, 1, dtype()), {70, 48}, dtype());
    const TensorView kept = upload(random_values(70 * 216, 6, 1, dtype()), {70, 216}, dtype());
    AdapterAddArgs args = make(70, end - begin, 16, true);
    args.y = y.slice_cols(begin, end);
    args.h = h.slice_cols(rank_begin, rank_begin + 16);
    args.kept = kept.slice_cols(8, 8 + end - begin);
    const std::vector<float> expected = expected_of(args), before = download(y.slice_cols(0, begin)),
                             after = download(kept.slice_cols(8 + end - begin, 216));
    adapter_add(ctx_, args);
    expect_result(args, expected);
    expect_same_bits(download(y.slice_cols(0, begin)), before, "columns before");
    expect_same_bits(download(kept.slice_cols(8 + end - begin, 216)), after, "columns after it");
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, AdapterAddTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
