// SPDX-License-Identifier: Apache-2.0
// Branches, loops and calls whose lanes diverge.
#include <algorithm>

#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

// The kernel writes one word for each of 128 threads in 2 blocks; `expected` maps the global thread index to that word.
template <class F>
void expect_words(const std::string& body, F expected, const std::string& globals = "") {
  const Source source{R"(
	mad.lo.s32 %r3, %r2, 64, %r1;
	mul.wide.u32 %rd10, %r3, 4;
	add.s64 %rd11, %rd1, %rd10;
)" + body,
                      1, globals};
  Buffer<uint32_t> out(128, false);
  expect_in_every_order(
      source, blocks_of(64, 2), {out}, [&] { std::fill(out.begin(), out.end(), 0xdeadbeef); },
      [&] {
        for (uint32_t i = 0; i < 128; ++i) ASSERT_EQ(out[i], expected(i)) << "of thread " << i;
      });
}

TEST(Control, Branches) {
  expect_words(R"(
	and.b32 %r10, %r3, 3;
	setp.eq.s32 %p1, %r10, 0;
	@%p1 bra $L__BB0_3;
	setp.eq.s32 %p2, %r10, 1;
	@%p2 bra $L__BB0_2;
	mul.lo.s32 %r11, %r3, 10;
	bra.uni $L__BB0_4;
$L__BB0_2:
	add.s32 %r11, %r3, 1000;
	bra.uni $L__BB0_4;
$L__BB0_3:
	neg.s32 %r11, %r3;
$L__BB0_4:
	add.s32 %r12, %r11, 1;
	st.global.u32 [%rd11], %r12;)",
               [](uint32_t i) { return i % 4 == 0   ? 1 - i
                                       : i % 4 == 1 ? i + 1001
                                                    : 10 * i + 1; });
}

// The number of steps from i + 1 to 1.
TEST(Control, LoopOfLanes) {
  expect_words(R"(
	add.s32 %r10, %r3, 1;
	mov.u32 %r11, 0;
	setp.eq.s32 %p1, %r10, 1;
	@%p1 bra $L__BB0_3;
$L__BB0_2:
	and.b32 %r12, %r10, 1;
	shr.u32 %r13, %r10, 1;
	mad.lo.s32 %r14, %r10, 3, 1;
	setp.eq.s32 %p2, %r12, 0;
	selp.b32 %r10, %r13, %r14, %p2;
	add.s32 %r11, %r11, 1;
	setp.ne.s32 %p3, %r10, 1;
	@%p3 bra $L__BB0_2;
$L__BB0_3:
	st.global.u32 [%rd11], %r11;)",
               [](uint32_t i) {
                 uint32_t steps = 0;
                 for (uint32_t n = i + 1; n != 1; ++steps) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
                 return steps;
               });
}

// for a in 0 .. i % 7: for b in 0 .. a: { if ((a ^ b) & 1) continue; sum += a * b + 1; if (sum > 40) goto done; }
TEST(Control, NestedLoops) {
  expect_words(R"(
	rem.u32 %r10, %r3, 7;
	mov.u32 %r11, 0;
	mov.u32 %r12, 0;
$L__BB0_1:
	setp.ge.u32 %p1, %r12, %r10;
	@%p1 bra $L__BB0_5;
	mov.u32 %r13, 0;
$L__BB0_2:
	setp.ge.u32 %p2, %r13, %r12;
	@%p2 bra $L__BB0_4;
	xor.b32 %r14, %r12, %r13;
	and.b32 %r15, %r14, 1;
	setp.ne.s32 %p3, %r15, 0;
	@%p3 bra $L__BB0_3;
	mad.lo.s32 %r16, %r12, %r13, 1;
	add.s32 %r11, %r11, %r16;
	setp.gt.u32 %p4, %r11, 40;
	@%p4 bra $L__BB0_5;
$L__BB0_3:
	add.s32 %r13, %r13, 1;
	bra.uni $L__BB0_2;
$L__BB0_4:
	add.s32 %r12, %r12, 1;
	bra.uni $L__BB0_1;
$L__BB0_5:
	st.global.u32 [%rd11], %r11;)",
               [](uint32_t i) {
                 uint32_t sum = 0;
                 for (uint32_t a = 0; a < i % 7; ++a) {
                   for (uint32_t b = 0; b < a; ++b) {
                     if (((a ^ b) & 1) != 0) continue;
                     sum += a * b + 1;
                     if (sum > 40) return sum;
                   }
                 }
                 return sum;
               });
}

TEST(Control, EarlyExit) {
  expect_words(R"(
	and.b32 %r10, %r3, 1;
	setp.ne.s32 %p1, %r10, 0;
	@!%p1 bra $L__BB0_2;
	ret;
$L__BB0_2:
	setp.lt.u32 %p2, %r3, 20;
	@%p2 exit;
	st.global.u32 [%rd11], %r3;)",
               [](uint32_t i) { return i % 2 == 0 && i >= 20 ? i : 0xdeadbeef; });
}

TEST(Control, Predicates) {
  expect_words(R"(
	mov.u32 %r10, 5;
	setp.lt.u32 %p1, %r3, 50;
	@%p1 add.s32 %r10, %r10, %r3;
	@!%p1 sub.s32 %r10, %r10, %r3;
	and.b32 %r11, %r3, 4;
	setp.eq.and.s32 %p2|%p3, %r11, 0, %p1;
	@%p2 mov.u32 %r10, 77;
	@%p3 mul.lo.s32 %r10, %r10, 3;
	st.global.u32 [%rd11], %r10;)",
               [](uint32_t i) {
                 if (i >= 50) return 5 - i;
                 return (i & 4) == 0 ? 77 : 3 * (5 + i);
               });
}

TEST(Control, Switch) {
  expect_words(R"(
	rem.u32 %r10, %r3, 5;
	setp.gt.u32 %p1, %r10, 3;
	@%p1 bra $L__BB0_6;

$L_brx_0: .branchtargets
	$L__BB0_2,
	$L__BB0_3,
	$L__BB0_4,
	$L__BB0_3;
	brx.idx 	%r10, $L_brx_0;
$L__BB0_2:
	mov.u32 %r11, 100;
	bra.uni $L__BB0_7;
$L__BB0_3:
	add.s32 %r11, %r10, 200;
	bra.uni $L__BB0_7;
$L__BB0_4:
	mov.u32 %r11, 300;
	bra.uni $L__BB0_7;
$L__BB0_6:
	mov.u32 %r11, 400;
$L__BB0_7:
	st.global.u32 [%rd11], %r11;)",
               [](uint32_t i) {
                 const uint32_t results[] = {100, 201, 300, 203, 400};
                 return results[i % 5];
               });
}

// Lanes that are still in the loop vote among themselves.
TEST(Control, MaskOfALoop) {
  expect_words(R"(
	and.b32 %r10, %r3, 31;
	mov.u32 %r11, 0;
	mov.u32 %r12, 0;
	mov.u32 %r13, -1;
$L__BB0_1:
	setp.lt.u32 %p1, %r11, %r10;
	vote.sync.ballot.b32 %r13, %p1, %r13;
	@!%p1 bra $L__BB0_2;
	popc.b32 %r14, %r13;
	add.s32 %r12, %r12, %r14;
	add.s32 %r11, %r11, 1;
	bra.uni $L__BB0_1;
$L__BB0_2:
	bar.warp.sync -1;
	st.global.u32 [%rd11], %r12;)",
               [](uint32_t i) {
                 uint32_t sum = 0;
                 for (uint32_t step = 0; step < i % 32; ++step) sum += 31 - step;
                 return sum;
               });
}

const std::string kFunctions = R"(.func  (.param .b32 func_retval0) scaled
(
	.param .b32 scaled_param_0,
	.param .b64 scaled_param_1
)
;
.func noted
(
	.param .b64 noted_param_0,
	.param .align 8 .b8 noted_param_1[16]
)
;
.func  (.param .b32 func_retval0) scaled(
	.param .b32 scaled_param_0,
	.param .b64 scaled_param_1
)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<2>;

	ld.param.u32 	%r1, [scaled_param_0];
	ld.param.u64 	%rd1, [scaled_param_1];
	mov.u32 	%r5, 0;
	setp.eq.s32 	%p1, %r1, 3;
	@%p1 bra 	$L__BB0_2;
	cvt.u32.u64 	%r2, %rd1;
	mul.lo.s32 	%r5, %r1, %r2;
$L__BB0_2:
	st.param.b32 	[func_retval0+0], %r5;
	ret;

}
.func noted(
	.param .b64 noted_param_0,
	.param .align 8 .b8 noted_param_1[16]
)
{
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<4>;

	ld.param.u64 	%rd1, [noted_param_0];
	ld.param.u32 	%r1, [noted_param_1];
	ld.param.u64 	%rd2, [noted_param_1+8];
	cvt.u32.u64 	%r2, %rd2;
	add.s32 	%r3, %r1, %r2;
	st.u32 	[%rd1], %r3;
	ret;

}
)";

TEST(Control, Calls) {
  expect_words(R"(
	and.b32 %r10, %r3, 7;
	setp.gt.u32 %p1, %r10, 5;
	mov.u32 %r12, 9;
	@%p1 bra $L__BB0_2;
	mov.u64 %rd12, 1000;
	{ // callseq 0, 0
	.reg .b32 temp_param_reg;
	.param .b32 param0;
	st.param.b32 	[param0+0], %r10;
	.param .b64 param1;
	st.param.b64 	[param1+0], %rd12;
	.param .b32 retval0;
	call.uni (retval0),
	scaled,
	(
	param0,
	param1
	);
	ld.param.b32 	%r12, [retval0+0];
	} // callseq 0
$L__BB0_2:
	cvta.global.u64 %rd13, %rd11;
	cvt.u64.u32 %rd14, %r3;
	{ // callseq 1, 0
	.reg .b32 temp_param_reg;
	.param .b64 param0;
	st.param.b64 	[param0+0], %rd13;
	.param .align 8 .b8 param1[16];
	st.param.b32 	[param1+0], %r12;
	st.param.b64 	[param1+8], %rd14;
	call.uni
	noted,
	(
	param0,
	param1
	);
	} // callseq 1)",
               [](uint32_t i) {
                 const uint32_t n = i & 7;
                 return i + (n > 5 ? 9 : n == 3 ? 0 : 1000 * n);
               },
               kFunctions);
}

const std::string kHalved = R"(.func  (.param .b64 func_retval0) halved(
	.param .b64 halved_param_0
)
{
	.reg .f64 	%fd<3>;

	ld.param.f64 	%fd1, [halved_param_0];
	mul.rn.f64 	%fd2, %fd1, 0d3FE0000000000000;
	st.param.f64 	[func_retval0+0], %fd2;
	ret;

}
)";

TEST(Control, CallsWithDoubles) {
  expect_words(R"(
	and.b32 %r10, %r3, 15;
	cvt.rn.f64.u32 %fd10, %r10;
	{ // callseq 0, 0
	.reg .b32 temp_param_reg;
	.param .b64 param0;
	st.param.f64 	[param0+0], %fd10;
	.param .b64 retval0;
	call.uni (retval0),
	halved,
	(
	param0
	);
	ld.param.f64 	%fd11, [retval0+0];
	} // callseq 0
	mul.rn.f64 %fd12, %fd11, 0d4010000000000000;
	cvt.rzi.u32.f64 %r12, %fd12;
	st.global.u32 [%rd11], %r12;)",
               [](uint32_t i) { return 2 * (i & 15); }, kHalved);
}

// Names in braces differ from those outside, including labels, which inline assembly repeats.
TEST(Control, Scopes) {
  expect_words(R"(
	mov.u32 %r10, 0;
	mov.u32 %r11, 3;
	// begin inline asm
	{
	.reg .pred done;
	.reg .b32 count;
	mov.u32 count, %r11;
	again:
	add.s32 %r10, %r10, 1;
	sub.s32 count, count, 1;
	setp.eq.s32 done, count, 0;
	@!done bra again;
	}
	// end inline asm
	// begin inline asm
	{
	.reg .pred done;
	.reg .b32 count;
	and.b32 count, %r3, 3;
	again:
	setp.eq.s32 done, count, 0;
	@done bra over;
	add.s32 %r10, %r10, 100;
	sub.s32 count, count, 1;
	bra.uni again;
	over:
	}
	// end inline asm
	st.global.u32 [%rd11], %r10;)",
               [](uint32_t i) { return 3 + 100 * (i % 4); });
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
