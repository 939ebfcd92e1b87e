// SPDX-License-Identifier: Apache-2.0
#include "cuda/engine.h"
#include "cuda/gemm.h"
#include "ops/matmul/matmul.h"

namespace gradmill {

template <>
void matmul<Device::cuda>(ExecContext& ctx, const MatmulArgs& args) {
  ctx.cuda->gemm().run({.a = args.a,
                        .b = args.b,
                        .c = args.c,
                        .transpose_a = args.transpose_a,
                        .transpose_b = args.transpose_b,
                        .alpha = args.alpha,
                        .beta = args.beta,
                        .bias = args.bias,
                        .tf32 = ctx.kernels.tf32,
                        .deterministic = ctx.kernels.deterministic,
                        .batch = args.batch});
}

}  // namespace gradmill
