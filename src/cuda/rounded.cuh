// SPDX-License-Identifier: Apache-2.0
// Quotients and roots with the bits of / and sqrtf, for normal numbers only: what the compiler adds for the others is a
// call, and even one that never happens takes registers from kernels that are short of them. Steps as the compiler's
// own.
#pragma once

namespace gradmill::cuda {

// 1 / x, for x and 1 / x normal.
__device__ inline float rounded_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return __fmaf_rn(y, __fmaf_rn(-x, y, 1.0f), y);
}

// x / divisor; `reciprocal` is 1 / divisor, rounded. For x and the quotient normal or 0.
__device__ inline float rounded_quotient(float x, float divisor, float reciprocal) {
  const float quotient = __fmul_rn(x, reciprocal);
  return __fmaf_rn(__fmaf_rn(-divisor, quotient, x), reciprocal, quotient);
}

// For x normal; its exponent must leave room for the square of the root's error.
__device__ inline float rounded_root(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  const float root = __fmul_rn(x, y);
  return __fmaf_rn(__fmaf_rn(-root, root, x), __fmul_rn(y, 0.5f), root);
}

}  // namespace gradmill::cuda
