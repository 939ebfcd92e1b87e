// SPDX-License-Identifier: Apache-2.0
// Barriers of a block and of some of its warps.
#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

// Every thread writes a word to shared memory and, after `barrier`, reads that of another thread.
Source exchange(const std::string& barrier, uint32_t other) {
  return {with(R"(
	.shared .align 4 .b8 tile[1024];
	mov.u32 %r10, tile;
	shl.b32 %r11, %r1, 2;
	add.s32 %r12, %r10, %r11;
	mul.lo.s32 %r13, %r1, 7;
	mov.u32 %r20, 0;
$L__BB0_1:
	add.s32 %r14, %r13, %r20;
	st.shared.u32 [%r12], %r14;
	$barrier
	xor.b32 %r15, %r11, $other;
	add.s32 %r16, %r10, %r15;
	ld.shared.u32 %r17, [%r16];
	mad.lo.s32 %r18, %r20, 256, %r1;
	mul.wide.u32 %rd10, %r18, 4;
	add.s64 %rd11, %rd1, %rd10;
	st.global.u32 [%rd11], %r17;
	$barrier
	add.s32 %r20, %r20, 1;
	setp.lt.u32 %p10, %r20, 3;
	@%p10 bra $L__BB0_1;)",
               {{"$barrier", barrier}, {"$other", std::to_string(4 * other)}})};
}

void expect_exchange(const std::string& barrier, uint32_t other, uint32_t threads) {
  Buffer<uint32_t> out(768);
  expect_in_every_order(
      exchange(barrier, other), blocks_of(threads), {out}, [] {},
      [&] {
        for (uint32_t i = 0; i < 3; ++i) {
          for (uint32_t t = 0; t < threads; ++t) ASSERT_EQ(out[256 * i + t], 7 * (t ^ other) + i) << "of " << t;
        }
      });
}

TEST(Barrier, OfTheBlock) {
  expect_exchange("bar.sync 0;", 255, 256);
  expect_exchange("barrier.sync 0;", 64, 256);
  expect_exchange("barrier.sync.aligned 3, 256;", 128, 256);
  expect_exchange("bar.sync 0;", 7, 40);  // a warp that is not full
}

TEST(Barrier, OfSomeWarps) {
  expect_exchange("bar.warp.sync -1;", 31, 256);
  expect_exchange("bar.warp.sync 0xffffffff;", 5, 64);
  expect_exchange("shr.u32 %r50, %r1, 6; add.s32 %r51, %r50, 1; bar.sync %r51, 64;", 63, 256);
  expect_exchange("shr.u32 %r50, %r1, 7; add.s32 %r51, %r50, 8; mov.u32 %r52, 128; barrier.sync %r51, %r52;", 127, 256);
}

// Only the first two warps meet; the others have ended or do something else.
TEST(Barrier, WithoutTheOthers) {
  const Source source{R"(
	.shared .align 4 .b8 tile[256];
	setp.ge.u32 %p1, %r1, 64;
	@%p1 bra $L__BB0_2;
	shl.b32 %r10, %r1, 2;
	mov.u32 %r11, tile;
	add.s32 %r12, %r11, %r10;
	st.shared.u32 [%r12], %r1;
	bar.sync 1, 64;
	xor.b32 %r13, %r10, 252;
	add.s32 %r14, %r11, %r13;
	ld.shared.u32 %r15, [%r14];
	cvt.u64.u32 %rd10, %r10;
	add.s64 %rd11, %rd1, %rd10;
	st.global.u32 [%rd11], %r15;
$L__BB0_2:)"};
  Buffer<uint32_t> out(64);
  expect_in_every_order(
      source, blocks_of(128), {out}, [] {},
      [&] {
        for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], 63 - i);
      });
}

// Warp 0 fills two buffers in turn and warp 1 empties them: each waits at one barrier and arrives at the other.
TEST(Barrier, ProducerAndConsumer) {
  const Source source{R"(
	.shared .align 4 .b8 tile[256];
	mov.u32 %r10, tile;
	and.b32 %r11, %r1, 31;
	mov.u32 %r12, 0;
	setp.ge.u32 %p1, %r1, 32;
	@%p1 bra $L__BB0_4;
$L__BB0_1:
	and.b32 %r13, %r12, 1;
	add.s32 %r14, %r13, 3;
	bar.sync %r14, 64;
	shl.b32 %r15, %r13, 5;
	add.s32 %r16, %r15, %r11;
	shl.b32 %r17, %r16, 2;
	add.s32 %r18, %r10, %r17;
	mad.lo.s32 %r19, %r12, 100, %r11;
	st.shared.u32 [%r18], %r19;
	add.s32 %r20, %r13, 1;
	bar.arrive %r20, 64;
	add.s32 %r12, %r12, 1;
	setp.lt.u32 %p2, %r12, 8;
	@%p2 bra $L__BB0_1;
	bra.uni $L__BB0_6;
$L__BB0_4:
	bar.arrive 3, 64;
	bar.arrive 4, 64;
$L__BB0_5:
	and.b32 %r13, %r12, 1;
	add.s32 %r14, %r13, 1;
	bar.sync %r14, 64;
	shl.b32 %r15, %r13, 5;
	xor.b32 %r16, %r11, 31;
	add.s32 %r17, %r15, %r16;
	shl.b32 %r18, %r17, 2;
	add.s32 %r19, %r10, %r18;
	ld.shared.u32 %r20, [%r19];
	shl.b32 %r21, %r12, 5;
	add.s32 %r22, %r21, %r11;
	mul.wide.u32 %rd10, %r22, 4;
	add.s64 %rd11, %rd1, %rd10;
	st.global.u32 [%rd11], %r20;
	setp.ge.u32 %p3, %r12, 6;
	add.s32 %r23, %r13, 3;
	@!%p3 bar.arrive %r23, 64;
	add.s32 %r12, %r12, 1;
	setp.lt.u32 %p2, %r12, 8;
	@%p2 bra $L__BB0_5;
$L__BB0_6:)"};
  Buffer<uint32_t> out(256);
  expect_in_every_order(
      source, blocks_of(64), {out}, [] {},
      [&] {
        for (uint32_t i = 0; i < 256; ++i) ASSERT_EQ(out[i], 100 * (i / 32) + 31 - i % 32);
      });
}

TEST(Barrier, Reductions) {
  const Source source{R"(
	and.b32 %r10, %r1, 5;
	setp.eq.s32 %p1, %r10, 0;
	setp.lt.u32 %p2, %r1, 96;
	setp.gt.u32 %p3, %r1, 96;
	bar.red.popc.u32 %r11, 0, %p1;
	barrier.cta.red.popc.aligned.u32 %r12, 1, 96, !%p1;
	bar.red.and.pred %p4, 0, %p2;
	bar.red.or.pred %p5, 0, %p3;
	bar.red.or.pred %p6, 2, 96, %p1;
	selp.u32 %r13, 1, 0, %p4;
	selp.u32 %r14, 2, 0, %p5;
	selp.u32 %r15, 4, 0, %p6;
	or.b32 %r16, %r13, %r14;
	or.b32 %r17, %r16, %r15;
	mul.wide.u32 %rd10, %r1, 16;
	add.s64 %rd11, %rd1, %rd10;
	st.global.v4.u32 [%rd11], {%r11, %r12, %r17, %r1};)"};
  Buffer<uint32_t> out(4 * 96);
  expect_in_every_order(
      source, blocks_of(96), {out}, [] {},
      [&] {
        for (uint32_t i = 0; i < 96; ++i) {
          EXPECT_EQ(out[4 * i], 24u);
          EXPECT_EQ(out[4 * i + 1], 72u);
          EXPECT_EQ(out[4 * i + 2], 5u);
        }
      });
}

// The last block to arrive sums what the others wrote.
TEST(Barrier, LastBlock) {
  const Source source{R"(
	.shared .align 4 .b8 is_last[4];
	mad.lo.s32 %r10, %r2, 64, %r1;
	mul.wide.u32 %rd10, %r10, 4;
	add.s64 %rd11, %rd1, %rd10;
	mad.lo.s32 %r11, %r10, 3, 1;
	st.global.u32 [%rd11], %r11;
	bar.sync 0;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra $L__BB0_2;
	fence.acq_rel.gpu;
	atom.acq_rel.gpu.global.add.u32 %r12, [%rd2], 1;
	setp.eq.s32 %p2, %r12, 3;
	selp.u32 %r13, 1, 0, %p2;
	st.shared.u32 [is_last], %r13;
$L__BB0_2:
	bar.sync 0;
	ld.shared.u32 %r14, [is_last];
	setp.eq.s32 %p3, %r14, 0;
	@%p3 ret;
	mov.u32 %r15, 0;
	mov.u32 %r16, 0;
$L__BB0_3:
	mad.lo.s32 %r17, %r16, 64, %r1;
	mul.wide.u32 %rd12, %r17, 4;
	add.s64 %rd13, %rd1, %rd12;
	ld.global.u32 %r18, [%rd13];
	add.s32 %r15, %r15, %r18;
	add.s32 %r16, %r16, 1;
	setp.lt.u32 %p4, %r16, 4;
	@%p4 bra $L__BB0_3;
	mul.wide.u32 %rd14, %r1, 4;
	add.s64 %rd15, %rd3, %rd14;
	st.global.u32 [%rd15], %r15;)",
                      3};
  Buffer<uint32_t> values(256), count(1), out(64);
  expect_in_every_order(
      source, blocks_of(64, 4), {values, count, out}, [&] { count[0] = 0; },
      [&] {
        for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], 4 * (3 * i + 1) + 3 * 64 * 6);
      });
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
