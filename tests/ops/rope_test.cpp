// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

#include <cmath>
#include <cstring>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kRows = 37, kHeads = 3, kKvHeads = 2, kPositions = 50;

// Head sizes whose halves are less than a vector, some vectors, or not a whole number of vectors; and the largest size
// for GPUs.
constexpr int64_t kHeadDims[] = {6, 36, 64, 72, 128, 256};

struct Problem {
  RopeArgs forward;
  RopeGradArgs backward;
};

class RopeTest : public OpTest {
 protected:
  // q and k are the first columns of a wider projection. The values are rounded to the test's dtype and stored as
  // `type`.
  Problem make(int64_t head_dim, bool normed, DType type, int64_t rows = kRows) {
    const int64_t cols = (kHeads + kKvHeads) * head_dim, width = cols + kKvHeads * head_dim;
    const auto packed = [&](uint32_t seed) {
      return upload(random_values(rows * width, seed, 2, dtype()), {rows, width}, type).slice_cols(0, cols);
    };
    const auto weight = [&](uint32_t seed) {
      return upload(random_values(head_dim, seed, 1, dtype()), {head_dim}, type);
    };
    std::vector<int32_t> positions;
    for (int32_t row = 0; row < rows; ++row) positions.push_back((row * 7 + 3) % int32_t{kPositions});
    Problem s;
    s.forward = {.in = packed(1),
                 .out = tensor({rows, cols}, type),
                 .positions = upload(positions),
                 .cos_sin = upload(angles(head_dim), {kPositions, head_dim}, DType::fp32),
                 .heads = kHeads,
                 .kv_heads = kKvHeads,
                 .head_dim = head_dim,
                 .eps = 1e-5f,
                 .weight_offset = 0.5f};
    s.backward = {.dout = packed(2), .din = tensor({rows, width}, type).slice_cols(0, cols)};
    if (normed) {
      s.forward.q_weight = weight(3), s.forward.k_weight = weight(4);
      s.backward.dq_weight = tensor({head_dim}, DType::fp32), s.backward.dk_weight = tensor({head_dim}, DType::fp32);
    }
    s.backward.forward = s.forward;
    return s;
  }

  static std::vector<float> angles(int64_t head_dim) {
    std::vector<float> table;
    for (int64_t position = 0; position < kPositions; ++position) {
      for (int64_t i = 0; i < head_dim; ++i) {
        const int64_t j = i % (head_dim / 2);
        const double angle = double(position) * std::pow(100.0, -2.0 * double(j) / double(head_dim));
        table.push_back(static_cast<float>(i == j ? std::cos(angle) : std::sin(angle)));
      }
    }
    return table;
  }
};

// The definition in double precision.
std::vector<float> reference(const RopeArgs& args, const std::vector<float>& in, const std::vector<float>& q_weight,
                             const std::vector<float>& k_weight) {
  const int64_t d = args.head_dim, half = d / 2, heads = args.heads + args.kv_heads;
  std::vector<float> out;
  for (int64_t row = 0; row < kRows; ++row) {
    const float* angle = args.cos_sin.row<float>(args.positions.ptr<int32_t>()[row]);
    for (int64_t head = 0; head < heads; ++head) {
      std::vector<double> x(in.begin() + (row * heads + head) * d, in.begin() + (row * heads + head + 1) * d);
      const std::vector<float>& weight = head < args.heads ? q_weight : k_weight;
      double squares = 0;
      for (double value : x) squares += value * value;
      for (size_t i = 0; i < x.size() && !weight.empty(); ++i) {
        x[i] *= (double(weight[i]) + args.weight_offset) / std::sqrt(squares / double(d) + args.eps);
      }
      for (int64_t i = 0; i < d; ++i) {
        const int64_t j = i % half;
        const double other = i < half ? -x[static_cast<size_t>(i + half)] : x[static_cast<size_t>(i - half)];
        out.push_back(static_cast<float>(x[static_cast<size_t>(i)] * angle[j] + other * angle[j + half]));
      }
    }
  }
  return out;
}

TEST_P(RopeTest, MatchesTheDefinition) {
  for (int64_t head_dim : kHeadDims) {
    for (bool normed : {false, true}) {
      const Problem s = make(head_dim, normed, dtype());
      rope_forward(ctx_, s.forward);
      const std::vector<float> none, q_weight = normed ? download(s.forward.q_weight) : none;
      const std::vector<float> expected =
          reference(s.forward, download(s.forward.in), q_weight, normed ? download(s.forward.k_weight) : none);
      // A rotation can cancel: the error is relative to the size of the pair.
      expect_reduction(download(s.forward.out), expected, dtype(), dtype() == DType::fp32 ? head_dim : 1, 1, "out");
    }
  }
}

TEST_P(RopeTest, GradientsMatchFp32) {
  for (int64_t head_dim : kHeadDims) {
    const Problem narrow = make(head_dim, false, dtype()), wide = make(head_dim, false, DType::fp32);
    rope_backward(ctx_, narrow.backward);
    rope_backward(reference_, wide.backward);
    expect_within_ulps(download(narrow.backward.din), download(wide.backward.din), dtype(), 1, "din");
  }
}

// A GPU sums in another order: where terms cancel, the error is that of the terms.
TEST_P(RopeTest, NormedGradientsMatchFp32) {
  for (int64_t head_dim : kHeadDims) {
    const Problem narrow = make(head_dim, true, dtype()), wide = make(head_dim, true, DType::fp32);
    rope_backward(ctx_, narrow.backward);
    rope_backward(reference_, wide.backward);
    const std::vector<float> din = download(narrow.backward.din), expected = download(wide.backward.din);
    if (on_gpu()) {
      expect_reduction(din, expected, dtype(), dtype() == DType::fp32 ? head_dim : 1, 1, "din");
    } else {
      expect_within_ulps(din, expected, dtype(), 1, "din");
    }
    const auto expect_weights = [&](const TensorView& actual, const TensorView& of_wide, const char* what) {
      if (on_gpu()) {
        expect_reduction(download(actual), download(of_wide), DType::fp32, kRows * kHeads, 1, what);
      } else {
        expect_same_bits(download(actual), download(of_wide), what);
      }
    };
    expect_weights(narrow.backward.dq_weight, wide.backward.dq_weight, "dq_weight");
    expect_weights(narrow.backward.dk_weight, wide.backward.dk_weight, "dk_weight");
  }
}

// If rows begin at any column, all elements are processed one by one, with the same result.
TEST_P(RopeTest, ColumnsThatBeginAnywhere) {
  for (bool normed : {false, true}) {
    Problem s = make(64, normed, dtype());
    rope_forward(ctx_, s.forward);
    rope_backward(ctx_, s.backward);
    const auto moved = [&](const TensorView& view) {
      const std::vector<float> values = download(view);
      const TensorView around = tensor({kRows, view.cols() + 3}, dtype());
      const TensorView to = around.slice_cols(1, view.cols() + 1);
      const TensorView from = upload(values, view.shape, dtype());
      for (int64_t row = 0; row < kRows; ++row) {
        std::memcpy(static_cast<std::byte*>(to.data) + row * to.row_stride * int64_t(size_of(dtype())),
                    static_cast<std::byte*>(from.data) + row * from.row_stride * int64_t(size_of(dtype())),
                    static_cast<size_t>(view.cols()) * size_of(dtype()));
      }
      return to;
    };
    Problem odd = s;
    odd.forward.in = moved(s.forward.in);
    odd.forward.out = tensor({kRows, s.forward.out.cols() + 3}, dtype()).slice_cols(3, s.forward.out.cols() + 3);
    odd.backward.forward = odd.forward;
    odd.backward.dout = odd.backward.din = moved(s.backward.dout);
    rope_forward(ctx_, odd.forward);
    rope_backward(ctx_, odd.backward);
    const int64_t terms = dtype() == DType::fp32 ? 64 : 1;
    expect_reduction(download(odd.forward.out), download(s.forward.out), dtype(), terms, 1, "out");
    expect_reduction(download(odd.backward.din), download(s.backward.din), dtype(), terms, 1, "din");
  }
}

// On a small GPU a thread loops over several rows. Its results must not depend on that.
TEST_P(RopeTest, ThreadsOfManyRows) {
  constexpr int64_t kManyRows = 101;
  for (int64_t head_dim : {6, 64, 128}) {
    for (bool normed : {false, true}) {
      const Problem s = make(head_dim, normed, dtype(), kManyRows);
      const int num_units = ctx_.device.num_units;
      ctx_.device.num_units = 1;  // before the first op, while the outputs are still poisoned
      rope_forward(ctx_, s.forward);
      rope_backward(ctx_, s.backward);
      ctx_.device.num_units = num_units;
      const std::vector<float> out = download(s.forward.out), din = download(s.backward.din);
      const auto weights = [&] { return std::pair(download(s.backward.dq_weight), download(s.backward.dk_weight)); };
      const auto expected = normed ? weights() : std::pair<std::vector<float>, std::vector<float>>();
      rope_forward(ctx_, s.forward);
      rope_backward(ctx_, s.backward);
      expect_same_bits(download(s.forward.out), out, "out");
      expect_same_bits(download(s.backward.din), din, "din");
      if (!normed) continue;
      const auto [dq_weight, dk_weight] = weights();
      expect_reduction(dq_weight, expected.first, DType::fp32, kManyRows * kHeads, 1, "dq_weight");
      expect_reduction(dk_weight, expected.second, DType::fp32, kManyRows * kHeads, 1, "dk_weight");
    }
  }
}

// Scratch is part of the plan.
TEST_P(RopeTest, OnPaperScratchIsAsInTheRun) {
  Problem s = make(64, true, dtype());
  rope_backward(ctx_, s.backward);
  ExecContext paper;
  paper.dry = true;
  paper.device = ctx_.device;
  rope_backward(paper, s.backward);
  EXPECT_EQ(paper.scratch.high_water(), ctx_.scratch.high_water());
}

TEST_P(RopeTest, InPlaceHasTheSameBits) {
  for (int64_t head_dim : kHeadDims) {
    for (bool normed : {false, true}) {
      const ArenaScope scope(ctx_.persistent);
      Problem s = make(head_dim, normed, dtype());
      rope_backward(ctx_, s.backward);
      const std::vector<float> din = download(s.backward.din);
      for (const bool over_input : {true, false}) {
        Problem in_place = make(head_dim, normed, dtype());
        in_place.backward.din = over_input ? in_place.forward.in : in_place.backward.dout;
        rope_backward(ctx_, in_place.backward);
        expect_same_bits(download(in_place.backward.din), din, over_input ? "din over in" : "din over dout");
      }
      if (normed) continue;
      rope_forward(ctx_, s.forward);
      const std::vector<float> out = download(s.forward.out);
      s.forward.out = s.forward.in;
      rope_forward(ctx_, s.forward);
      expect_same_bits(download(s.forward.out), out, "out");
    }
  }
}

// Without a norm only dout is needed.
TEST_P(RopeTest, BackwardUndoesTheForward) {
  Problem s = make(64, false, dtype());
  rope_forward(ctx_, s.forward);
  const std::vector<float> before = download(s.forward.in);
  s.backward.forward.in = s.backward.forward.out = {};
  s.backward.dout = s.backward.din = s.forward.out;
  rope_backward(ctx_, s.backward);
  expect_reduction(download(s.backward.din), before, dtype(), 1, 2, "in");
}

TEST_P(RopeTest, BetaAddsToTheOldGradient) {
  Problem s = make(36, true, dtype());
  rope_backward(ctx_, s.backward);
  const std::vector<float> dq_weight = download(s.backward.dq_weight);
  std::vector<float> dk_weight = download(s.backward.dk_weight);
  for (float& value : dk_weight) value *= 2;
  s.backward.k_beta = 1;
  rope_backward(ctx_, s.backward);
  expect_same_bits(download(s.backward.dq_weight), dq_weight, "dq_weight");
  expect_within_ulps(download(s.backward.dk_weight), dk_weight, DType::fp32, 2, "dk_weight");
  s.backward.dq_weight = s.backward.dk_weight = {};  // frozen
  rope_backward(ctx_, s.backward);
}

TEST_P(RopeTest, BitsDoNotDependOnThreads) {
  const Problem s = make(72, true, dtype());
  std::vector<float> out, din, dq_weight, dk_weight;
  for (int threads : {1, 2, 3, 7}) {
    use_threads(threads);
    rope_forward(ctx_, s.forward);
    rope_backward(ctx_, s.backward);
    if (threads == 1) {
      out = download(s.forward.out), din = download(s.backward.din);
      dq_weight = download(s.backward.dq_weight), dk_weight = download(s.backward.dk_weight);
    }
    expect_same_bits(download(s.forward.out), out, "out");
    expect_same_bits(download(s.backward.din), din, "din");
    expect_same_bits(download(s.backward.dq_weight), dq_weight, "dq_weight");
    expect_same_bits(download(s.backward.dk_weight), dk_weight, "dk_weight");
  }
}

class RopeGradients : public RopeTest {};
TEST_P(RopeGradients, CentralDifferences) {
  use_threads(1);
  for (bool normed : {false, true}) {
    const Problem s = make(36, normed, DType::fp32);
    rope_forward(ctx_, s.forward);
    rope_backward(ctx_, s.backward);
    const GradientCheck check{.forward = [&] { rope_forward(ctx_, s.forward); },
                              .output = s.forward.out,
                              .doutput = download(s.backward.dout)};
    expect_gradient(check, s.forward.in, download(s.backward.din), "in");
    if (!normed) continue;
    expect_gradient(check, s.forward.q_weight, download(s.backward.dq_weight), "q_weight");
    expect_gradient(check, s.forward.k_weight, download(s.backward.dk_weight), "k_weight");
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, RopeGradients, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, RopeTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
