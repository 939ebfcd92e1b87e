// SPDX-License-Identifier: Apache-2.0
// Which kernels are reported to give hardware's bits.
#include "paper_gpu/ptx/exactness.h"

#include "paper_gpu/ptx/module.h"
#include "paper_gpu/ptx/tests/kernel.h"

namespace gradmill::paper::ptx::test {
namespace {

std::string why_inexact_with(const std::string& instructions) {
  Module module(text_of({.body = ".loc 1 7 0\n" + instructions}));
  return why_inexact(module.kernel("test"));
}

TEST(Exactness, RoundedArithmeticIsExact) {
  for (const char* const instruction :
       {"fma.rn.f32 %f3, %f1, %f2, %f1;", "div.rn.f32 %f3, %f1, %f2;", "sqrt.rn.f32 %f3, %f1;", "rcp.rn.f32 %f3, %f1;",
        "cvt.rn.bf16x2.f32 %r3, %f1, %f2;", "add.rn.bf16x2 %r3, %r1, %r2;"}) {
    EXPECT_EQ(why_inexact_with(instruction), "") << instruction;
  }
}

TEST(Exactness, IntegersAreExactInAnyOrder) {
  for (const char* const instruction :
       {"red.global.add.u32 [%rd1], %r1;", "atom.global.add.s32 %r3, [%rd1], %r1;", "red.global.max.s32 [%rd1], %r1;",
        "atom.global.cas.b32 %r3, [%rd1], %r1, %r2;"}) {
    EXPECT_EQ(why_inexact_with(instruction), "") << instruction;
  }
}

TEST(Exactness, ApproximationsAndSumsInAnyOrderAreNot) {
  for (const char* const instruction :
       {"ex2.approx.ftz.f32 %f3, %f1;", "lg2.approx.f32 %f3, %f1;", "rsqrt.approx.ftz.f32 %f3, %f1;",
        "div.approx.ftz.f32 %f3, %f1, %f2;", "div.full.f32 %f3, %f1, %f2;", "red.global.add.f32 [%rd1], %f1;",
        "atom.global.add.f32 %f3, [%rd1], %f1;", "red.global.add.noftz.bf16x2 [%rd1], %r1;"}) {
    EXPECT_NE(why_inexact_with(instruction), "") << instruction;
  }
}

TEST(Exactness, MatrixProductsAreNotAndTheirOperandsAre) {
  EXPECT_NE(why_inexact_with("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, "
                             "{%r3, %r4, %r5, %r6}, {%r7, %r8}, {%f1, %f2, %f3, %f4};"),
            "");
  EXPECT_EQ(why_inexact_with(".shared .align 16 .b8 tile[1024]; mov.u32 %r9, tile;\n"
                             "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, [%r9];"),
            "");
}

TEST(Exactness, TheReasonNamesTheKernel) {
  const std::string reason = why_inexact_with("add.f32 %f3, %f1, %f2;\nex2.approx.ftz.f32 %f3, %f3;");
  EXPECT_NE(reason.find("7 in test"), std::string::npos) << reason;
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
