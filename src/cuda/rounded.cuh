// SPDX-License-Identifier: Apache-2.0
// Quotients and square roots with the same bits as / and sqrtf, for normal numbers only. For other numbers the compiler
// would add a call; even a call that is never executed takes registers, which some kernels do not have. The steps are
// those the compiler uses.
#pragma once

namespace gradmill::cuda {

// 1 / x, for normal x and normal 1 / x.
__device__ inline float rounded_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return __fmaf_rn(y, __fmaf_rn(-x, y, 1.0f), y);
}

// x / divisor, where `reciprocal` is 1 / divisor, rounded. x and the quotient must be normal or 0.
__device__ inline float rounded_quotient(float x, float divisor, float reciprocal) {
  const float quotient = __fmul_rn(x, reciprocal);
  return __fmaf_rn(__fmaf_rn(-divisor, quotient, x), reciprocal, quotient);
}

// For normal x; its exponent must be large enough that the square of the root's error does not underflow.
__device__ inline float rounded_root(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  const float root = __fmul_rn(x, y);
  return __fmaf_rn(__fmaf_rn(-root, root, x), __fmul_rn(y, 0.5f), root);
}

}  // namespace gradmill::cuda
