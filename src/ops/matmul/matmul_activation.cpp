// SPDX-License-Identifier: Apache-2.0
// GEMMs with an activation: validation, the choice between one kernel and two, cost and dispatch.
#include "ops/matmul/matmul_activation.h"

#include "ops/bias_grad.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_activation_hopper.h"
#include "ops/matmul/matmul_gelu_hopper.h"

namespace gradmill {
namespace {

// A dry run uses two ops, which need at least as much scratch.
bool may_fuse(const ExecContext& ctx) {
  return kHasCuda && !ctx.dry && ctx.device.kind == DeviceKind::cuda && ctx.kernels.fused_activations;
}

bool may_ask_library(const ExecContext& ctx, Activation kind, const TensorView& x) {
  const bool can_multiply = x.dtype == DType::fp16 || (x.dtype == DType::bf16 && ctx.device.compute_capability >= 80);
  return kind == Activation::gelu_tanh && may_fuse(ctx) && !ctx.kernels.deterministic && can_multiply;
}

// Calls ask<T>() with the element type, for types that GPUs multiply.
template <class Ask>
bool ask_gpu(DType dtype, Ask&& ask) {
  if constexpr (kHasCuda)
    return dtype == DType::fp16 ? ask.template operator()<Fp16>() : ask.template operator()<Bf16>();
  return false;
}

// `others`: tensors that are read or written in addition to the GEMM's; they may be undefined.
template <class... Views>
OpCost cost_of(const MatmulArgs& product, const Views&... others) {
  const int64_t columns = product.b.numel() / product.a.cols();
  const size_t other_bytes = ((others.defined() ? others.bytes() : 0) + ... + 0);
  return {.flops = 2 * double(product.a.numel()) * double(columns),
          .bytes = double(product.a.bytes() + product.b.bytes() + product.c.bytes() + other_bytes),
          .matrix = true};
}

enum class Kernel : uint8_t { separate, library, narrow_hopper, wide_hopper };

Kernel choose_kernel(ExecContext& ctx, const MatmulActivationArgs& args) {
  if constexpr (kHasCuda) {
    if (may_fuse(ctx) && hopper_supports(ctx, args)) return Kernel::narrow_hopper;
    if (may_fuse(ctx) && wide_hopper_supports(ctx, args)) return Kernel::wide_hopper;
    const bool fused = !args.exact && may_ask_library(ctx, args.kind, args.x) && ask_gpu(args.x.dtype, [&]<class T>() {
      return prefers_matmul_gelu<Device::cuda, T>(ctx, args);
    });
    if (fused) return Kernel::library;
  }
  return Kernel::separate;
}

bool prefers_library(ExecContext& ctx, const MatmulActivationGradArgs& args) {
  const ArenaScope scope(ctx.scratch);
  TensorView partials;
  if (args.dbias.defined()) {
    const int64_t count = bias_grad_chunks(ctx.device, args.dx.plain).count;
    partials = ctx.alloc_scratch({count, args.dx.plain.cols()}, DType::fp32, "bias partials");
  }
  return ask_gpu(args.x.dtype,
                 [&]<class T>() { return prefers_matmul_gelu_backward<Device::cuda, T>(ctx, args, partials); });
}

Kernel choose_kernel(ExecContext& ctx, const MatmulActivationGradArgs& args) {
  if constexpr (kHasCuda) {
    if (may_fuse(ctx) && hopper_supports(ctx, args)) return Kernel::narrow_hopper;
    if (may_fuse(ctx) && wide_hopper_supports(ctx, args)) return Kernel::wide_hopper;
    if (!args.y.defined() && may_ask_library(ctx, args.kind, args.x) && prefers_library(ctx, args))
      return Kernel::library;
  }
  return Kernel::separate;
}

}  // namespace

bool matmul_activation_backward_can_overwrite(ExecContext& ctx, const MatmulActivationGradArgs& args) {
  if constexpr (kHasCuda) {
    return may_fuse(ctx) && (hopper_supports(ctx, args) || wide_hopper_supports(ctx, args));
  }
  return false;
}

void matmul_activation(ExecContext& ctx, const MatmulActivationArgs& args) {
  const TensorView& y = args.y.plain;
  assert(args.x.rows() == y.rows() && args.x.cols() == (is_gated(args.kind) ? 2 : 1) * y.cols());
  assert(args.x.dtype == y.dtype);
  assert(!args.product.defined() || (args.product.c.data == args.x.data && args.product.c.dtype == y.dtype));
  assert(!args.product.transpose_a && args.product.transpose_b == args.product.defined() && args.product.beta == 0);
  const Kernel kernel = args.product.defined() ? choose_kernel(ctx, args) : Kernel::separate;
  if (kernel == Kernel::separate) {
    if (args.product.defined()) run_product(ctx, args.product);
    return activation_forward(ctx, {.kind = args.kind, .x = args.x, .y = args.y});
  }
  const MatmulArgs product = matmul_args(args.product);
  run_op(ctx, product_name(ctx, "matmul_activation", product), args.x.dtype, FloatTypes{}, cost_of(product, y),
         [&]<Device D, class T>() {
           if constexpr (D == Device::cuda) {
             if (kernel == Kernel::library) return matmul_gelu<D>(ctx, args);
             if constexpr (!std::is_same_v<T, float>) {
               if (kernel == Kernel::narrow_hopper) return hopper_matmul_gelu<T>(ctx, args);
               wide_hopper_matmul_activation<T>(ctx, args);
             }
           }
         });
}

namespace {

void backward_separate(ExecContext& ctx, const MatmulActivationGradArgs& args) {
  const ArenaScope scope(ctx.scratch);
  Product product = args.product;
  const TensorView& dx = args.dx.plain;
  product.c = dx;
  if (is_gated(args.kind)) product.c = ctx.alloc_scratch({dx.rows(), dx.cols() / 2}, dx.dtype, "d hidden");
  run_product(ctx, product);
  activation_backward(ctx, {.kind = args.kind,
                            .x = args.x,
                            .dy = product.c,
                            .dx = args.dx,
                            .y = args.y,
                            .dbias = args.dbias,
                            .bias_beta = args.bias_beta});
}

}  // namespace

void matmul_activation_backward(ExecContext& ctx, const MatmulActivationGradArgs& args) {
  const TensorView& dx = args.dx.plain;
  assert(args.x.shape == dx.shape && args.x.dtype == dx.dtype && !args.product.c.defined());
  assert(args.x.cols() == (is_gated(args.kind) ? 2 : 1) * args.product.b.plain.cols());
  assert(!args.product.transpose_a && !args.product.transpose_b && args.product.beta == 0);
  const Kernel kernel = choose_kernel(ctx, args);
  if (kernel == Kernel::separate) return backward_separate(ctx, args);
  MatmulArgs product = matmul_args(args.product);
  product.c = dx;
  run_op(ctx, product_name(ctx, "matmul_activation_backward", product), args.x.dtype, FloatTypes{},
         cost_of(product, args.x, args.y.plain), [&]<Device D, class T>() {
           if constexpr (D == Device::cuda) {
             if (kernel == Kernel::library) return matmul_gelu_backward<D>(ctx, args);
             if constexpr (!std::is_same_v<T, float>) {
               if (kernel == Kernel::narrow_hopper) return hopper_matmul_gelu_backward<T>(ctx, args);
               wide_hopper_matmul_activation_backward<T>(ctx, args);
             }
           }
         });
  // The library would give the sums as well, but rounded to 16 bits, and add nothing to them.
  if (args.dbias.defined()) bias_grad(ctx, {.dy = dx, .dbias = args.dbias, .beta = args.bias_beta});
}

}  // namespace gradmill
