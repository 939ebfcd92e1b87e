// SPDX-License-Identifier: Apache-2.0
// The trials call the kernels directly, not the ops, so that no ledger counts them.
#include "ops/matmul/matmul_activation.h"

#include "cuda/engine.h"
#include "cuda/gemm.h"
#include "ops/activation.h"
#include "ops/bias_grad.h"
#include "ops/matmul/matmul.h"

namespace gradmill {
namespace {

cuda::GemmCall call_of(const MatmulActivationArgs& args) {
  return {.a = args.product.a.plain,
          .b = args.product.b.plain,
          .c = args.y.plain,
          .transpose_b = true,
          .bias = args.product.bias,
          .epilogue = cuda::GemmEpilogue::gelu,
          .aux = args.x};
}

cuda::GemmCall call_of(const MatmulActivationGradArgs& args) {
  return {.a = args.product.a.plain,
          .b = args.product.b.plain,
          .c = args.dx.plain,
          .epilogue = cuda::GemmEpilogue::gelu_gradient,
          .aux = args.x,
          .sums_follow = args.dbias.defined()};
}

}  // namespace

template <Device D, class T>
bool prefers_matmul_gelu(ExecContext& ctx, const MatmulActivationArgs& args) {
  return ctx.cuda->gemm().prefers(call_of(args), [&] {
    matmul<D>(ctx, matmul_args(args.product));
    activation_forward<D, T>(ctx, {.kind = Activation::gelu_tanh, .x = args.x, .y = args.y});
  });
}

// The trials write the bias's gradient, if requested, over its own partial sums, because only they read this scratch.
template <Device D, class T>
bool prefers_matmul_gelu_backward(ExecContext& ctx, const MatmulActivationGradArgs& args, const TensorView& partials) {
  const TensorView& dx = args.dx.plain;
  TensorView dbias;
  if (partials.defined()) dbias = TensorView(partials.data, DType::fp32, {dx.cols()});
  const ActivationGradArgs gradient{.kind = Activation::gelu_tanh, .x = args.x, .dy = dx, .dx = dx, .dbias = dbias};
  MatmulArgs product = matmul_args(args.product);
  product.c = dx;
  const auto apart = [&] {
    matmul<D>(ctx, product);
    activation_backward<D, T>(ctx, gradient, partials);
  };
  const auto add_sums = [&] {
    if (dbias.defined()) bias_grad<D, T>(ctx, {.dy = dx, .dbias = dbias}, partials);
  };
  return ctx.cuda->gemm().prefers(call_of(args), apart, add_sums);
}

template <>
void matmul_gelu<Device::cuda>(ExecContext& ctx, const MatmulActivationArgs& args) {
  ctx.cuda->gemm().run(call_of(args));
}

template <>
void matmul_gelu_backward<Device::cuda>(ExecContext& ctx, const MatmulActivationGradArgs& args) {
  ctx.cuda->gemm().run(call_of(args));
}

template bool prefers_matmul_gelu<Device::cuda, Bf16>(ExecContext&, const MatmulActivationArgs&);
template bool prefers_matmul_gelu<Device::cuda, Fp16>(ExecContext&, const MatmulActivationArgs&);
template bool prefers_matmul_gelu_backward<Device::cuda, Bf16>(ExecContext&, const MatmulActivationGradArgs&,
                                                               const TensorView&);
template bool prefers_matmul_gelu_backward<Device::cuda, Fp16>(ExecContext&, const MatmulActivationGradArgs&,
                                                               const TensorView&);

}  // namespace gradmill
