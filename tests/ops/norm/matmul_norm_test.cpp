// SPDX-License-Identifier: Apache-2.0
// A norm with a fused GEMM is compared with the two ops on the same device. Operands are small integers, so that every
// order of summation gives the same bits.
#include <cmath>

#include "ops/norm/norm.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

struct Size {
  int64_t rows, depth, cols;
};
// Cases for the fused kernel of a GPU: both widths, rows that do not fill a tile, an odd number of tiles, more tiles
// than blocks, and numbers of blocks that end at each position of the ring.
constexpr Size kJoined[] = {{8200, 384, 384},  {8320, 448, 384},  {17033, 256, 384},
                            {8192, 1536, 384}, {17033, 320, 256}, {8200, 1024, 256}};
constexpr Size kApart[] = {{37, 24, 45}, {37, 64, 384}};

class MatmulNormTest : public OpTest {
 protected:
  MatmulNormTest() : OpTest(size_t{GetParam().device == Device::cuda ? 320u : 8u} << 20) {
    scalars().dropout = 0.3f;
    scalars().seed = 0x123456789abcdef0;
    scalars().step = 17;
    scalars().token_base = 1000;
  }
  std::span<const Size> sizes() const {
    return ctx_.device.kind == DeviceKind::cuda ? std::span<const Size>(kJoined) : std::span<const Size>(kApart);
  }
  TensorView integers(int64_t rows, int64_t cols, uint32_t seed) {
    std::vector<float> values = random_values(rows * cols, seed, 1.4f);
    for (float& value : values) value = std::nearbyint(value);
    return upload(values, {rows, cols}, dtype());
  }
  TensorView matrix(int64_t rows, int64_t cols, uint32_t seed) {
    return upload(random_values(rows * cols, seed, 2, dtype()), {rows, cols}, dtype());
  }
  TensorView vector(int64_t cols, uint32_t seed) {
    return upload(random_values(cols, seed, 1, dtype()), {cols}, dtype());
  }
  // Separate outputs, so that two implementations can be compared.
  NormArgs forward_of(const NormArgs& inputs) {
    NormArgs args = inputs;
    args.sum = tensor(args.x.shape, dtype());
    args.y = Operand(tensor(args.x.shape, dtype()));
    args.rstd = tensor({args.x.rows()}, DType::fp32);
    if (args.kind == NormKind::layer) args.mean = tensor({args.x.rows()}, DType::fp32);
    return args;
  }
};

TEST_P(MatmulNormTest, IsItsTwoParts) {
  for (const auto& [rows, depth, cols] : sizes()) {
    for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
      const ArenaScope scope(ctx_.persistent);
      const bool layer = kind == NormKind::layer;
      const Product product{.a = integers(rows, depth, 1),
                            .b = integers(cols, depth, 2),
                            .c = tensor({rows, cols}, dtype()),
                            .transpose_b = true,
                            .bias = layer ? integers(1, cols, 3) : TensorView{}};
      const NormArgs inputs{.kind = kind,
                            .x = matrix(rows, cols, 4),
                            .delta = product.c,
                            .weight = vector(cols, 5),
                            .bias = layer ? vector(cols, 6) : TensorView{},
                            .eps = 1e-5f,
                            .weight_offset = layer ? 0.0f : 1.0f,
                            .dropout = layer,
                            .dropout_site = 9};
      NormArgs joined = forward_of(inputs);
      const NormArgs apart = forward_of(inputs);
      joined.product = product;
      norm_forward(ctx_, joined);
      run_product(ctx_, product);
      norm_forward(ctx_, apart);
      expect_same_bits(download(joined.sum), download(apart.sum), "sum");
      expect_reduction(download(joined.rstd), download(apart.rstd), DType::fp32, cols, 2, "rstd");
      if (layer) expect_reduction(download(joined.mean), download(apart.mean), DType::fp32, cols, 2, "mean");
      expect_reduction(download(joined.y.plain), download(apart.y.plain), dtype(), 1, 2, "y");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, MatmulNormTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
