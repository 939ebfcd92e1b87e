// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory, and clusters of blocks that use each other's barriers.
#include "paper_gpu/ptx/tests/kernel.h"

namespace gradmill::paper::ptx::test {
namespace {

const std::string kInit = R"(
	.shared .align 8 .b8 barriers[16];
	.shared .align 4 .b8 tile[512];
	mov.u32 %r10, barriers;
	mov.u32 %r11, tile;
	shl.b32 %r12, %r1, 2;
	add.s32 %r13, %r11, %r12;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra $L_started;
	mbarrier.init.shared::cta.b64 [%r10], $count;
	mbarrier.init.shared.b64 [%r10+8], 1;
$L_started:
	bar.sync 0;
)";

// The threads exchange words in 4 phases. `arrive` arrives at [%r10]; `wait` waits for phase %r20, whose parity is
// %r21.
void expect_phases(const std::string& arrive, const std::string& wait, uint32_t count) {
  const std::string body = with(kInit, {{"$count", std::to_string(count)}}) + R"(
	mov.u32 %r20, 0;
$L_phase:
	and.b32 %r21, %r20, 1;
	mad.lo.s32 %r22, %r20, 1000, %r1;
	st.shared.u32 [%r13], %r22;
	)" + arrive + "\n" +
                           wait + R"(
	xor.b32 %r23, %r12, 508;
	add.s32 %r24, %r11, %r23;
	ld.shared.u32 %r25, [%r24];
	mad.lo.s32 %r26, %r20, 128, %r1;
	mul.wide.u32 %rd10, %r26, 4;
	add.s64 %rd11, %rd1, %rd10;
	st.global.u32 [%rd11], %r25;
	bar.sync 0;
	add.s32 %r20, %r20, 1;
	setp.lt.u32 %p2, %r20, 4;
	@%p2 bra $L_phase;)";
  Buffer<uint32_t> out(512);
  expect_in_every_order(
      {body}, blocks_of(128), {out}, [] {},
      [&] {
        for (uint32_t i = 0; i < 512; ++i) ASSERT_EQ(out[i], i / 128 * 1000 + 127 - i % 128);
      });
}

TEST(Mbarrier, Phases) {
  const std::string by_parity = wait_for("%r10", "%r21");
  const std::string by_state = R"(	{
	.reg .pred done;
	again:
	mbarrier.$test_wait.shared::cta.b64 done, [%r10], %rd20;
	@!done bra again;
	})";
  const std::string test_parity = with(by_parity, {{"try_wait", "test_wait"}});
  expect_phases("mbarrier.arrive.shared::cta.b64 _, [%r10];", by_parity, 128);
  expect_phases("mbarrier.arrive.shared::cta.b64 %rd20, [%r10];", by_parity, 128);
  expect_phases("mbarrier.arrive.shared.b64 %rd20, [%r10];", with(by_state, {{"$test", "try"}}), 128);
  expect_phases("mbarrier.arrive.release.cta.shared::cta.b64 %rd20, [%r10];", with(by_state, {{"$test", "test"}}), 128);
  expect_phases("mbarrier.arrive.shared::cta.b64 _, [%r10], 3;", test_parity, 384);
  expect_phases(
      "mbarrier.arrive.noComplete.shared::cta.b64 %rd20, [%r10], 1; mbarrier.arrive.shared::cta.b64 _, [%r10];",
      by_parity, 256);
  expect_phases("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 0;", by_parity, 128);
  expect_phases(
      "bar.warp.sync -1; and.b32 %r50, %r1, 31; setp.eq.s32 %p50, %r50, 0; "
      "@%p50 mbarrier.arrive.shared::cta.b64 _, [%r10];",
      by_parity, 4);
}

// Whether phases have ended, as seen by a single thread.
TEST(Mbarrier, States) {
  const std::string body = with(kInit, {{"$count", "3"}}) + R"(
	@%p1 bra $L_end;
	mbarrier.test_wait.parity.shared::cta.b64 %p10, [%r10], 0;
	mbarrier.test_wait.parity.shared::cta.b64 %p11, [%r10], 1;
	mbarrier.arrive.shared::cta.b64 %rd20, [%r10];
	mbarrier.pending_count.b64 %r20, %rd20;
	mbarrier.arrive.shared::cta.b64 %rd21, [%r10];
	mbarrier.pending_count.b64 %r21, %rd21;
	mbarrier.test_wait.shared::cta.b64 %p12, [%r10], %rd20;
	mbarrier.arrive.expect_tx.shared::cta.b64 %rd22, [%r10], 0;
	mbarrier.test_wait.shared::cta.b64 %p13, [%r10], %rd20;
	mbarrier.test_wait.parity.shared::cta.b64 %p14, [%r10], 0;
	mbarrier.test_wait.parity.shared::cta.b64 %p15, [%r10], 1;
	mbarrier.arrive_drop.shared::cta.b64 %rd23, [%r10];
	mbarrier.arrive.shared::cta.b64 %rd24, [%r10], 2;
	mbarrier.test_wait.parity.shared::cta.b64 %p16, [%r10], 1;
	mbarrier.arrive.shared::cta.b64 %rd25, [%r10], 2;
	mbarrier.test_wait.parity.shared::cta.b64 %p17, [%r10], 0;
	mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10+8], 64;
	mbarrier.arrive.shared::cta.b64 _, [%r10+8];
	mbarrier.test_wait.parity.shared::cta.b64 %p18, [%r10+8], 0;
	mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10+8], 64;
	mbarrier.test_wait.parity.shared::cta.b64 %p19, [%r10+8], 0;
	mbarrier.inval.shared::cta.b64 [%r10];
	mbarrier.inval.shared::cta.b64 [%r10+8];
	mov.u32 %r30, 7;
	st.shared.u32 [%r10], %r30;
	mov.u32 %r31, 0;
$predicates
	st.global.v4.u32 [%rd1], {%r31, %r20, %r21, %r30};
$L_end:)";
  std::string predicates;
  for (int i = 0; i < 10; ++i) {
    predicates += "\tselp.u32 %r40, " + std::to_string(1 << i) + ", 0, %p" + std::to_string(10 + i) +
                  ";\n\tor.b32 %r31, %r31, %r40;\n";
  }
  Buffer<uint32_t> out(4);
  expect_runs({with(body, {{"$predicates", predicates}})}, blocks_of(32), {out});
  // The phase before the first one counts as ended.
  EXPECT_EQ(out[0], 0b1011011010u) << std::hex << out[0];
  EXPECT_EQ(out[1], 3u);
  EXPECT_EQ(out[2], 2u);
}

TEST(Cluster, Registers) {
  const Source source{R"(
	mov.u32 %r10, %cluster_ctarank;
	mov.u32 %r11, %cluster_nctarank;
	mov.u32 %r12, %clusterid.x;
	mov.u32 %r13, %nclusterid.x;
	mov.u32 %r14, %cluster_ctaid.x;
	mov.u32 %r15, %cluster_nctaid.x;
	mov.pred %p1, %is_explicit_cluster;
	mul.wide.u32 %rd10, %r2, 32;
	add.s64 %rd11, %rd1, %rd10;
	st.global.v4.u32 [%rd11], {%r10, %r11, %r12, %r13};
	st.global.v2.u32 [%rd11+16], {%r14, %r15};)"};
  Buffer<uint32_t> out(64);
  expect_runs(source, blocks_of(32, 8, 0, 4), {out});
  for (uint32_t block = 0; block < 8; ++block) {
    const std::vector<uint32_t> expected = {block % 4, 4, block / 4, 2, block % 4, 4};
    EXPECT_EQ(std::vector<uint32_t>(out.begin() + 8 * block, out.begin() + 8 * block + 6), expected);
  }
}

// Each block writes to the next one of its cluster, and reads its own data, written by the previous one.
TEST(Cluster, SharedMemoryOfOthers) {
  const Source source{R"(
	.shared .align 8 .b8 given[512];
	.shared .align 4 .b8 own[256];
	mov.u32 %r10, %cluster_ctarank;
	add.s32 %r11, %r10, 1;
	and.b32 %r12, %r11, 3;
	add.s32 %r13, %r10, 3;
	and.b32 %r14, %r13, 3;
	shl.b32 %r15, %r1, 3;
	mov.u32 %r16, given;
	add.s32 %r17, %r16, %r15;
	shl.b32 %r18, %r1, 2;
	mov.u32 %r19, own;
	add.s32 %r20, %r19, %r18;
	mad.lo.s32 %r21, %r2, 1000, %r1;
	cvt.rn.f32.u32 %f1, %r21;
	neg.f32 %f2, %f1;
	st.shared.u32 [%r20], %r21;
	barrier.cluster.arrive.relaxed.aligned;
	barrier.cluster.wait.acquire.aligned;
	mapa.shared::cluster.u32 %r22, %r17, %r12;
	st.shared::cluster.v2.f32 [%r22], {%f1, %f2};
	barrier.cluster.arrive.release.aligned;
	barrier.cluster.wait.acquire.aligned;
	ld.shared.v2.f32 {%f3, %f4}, [%r17];
	mapa.shared::cluster.u32 %r23, %r20, %r14;
	ld.shared::cluster.u32 %r24, [%r23];
	mov.u64 %rd20, own;
	cvta.shared.u64 %rd21, %rd20;
	cvt.u64.u32 %rd22, %r18;
	add.s64 %rd23, %rd21, %rd22;
	mapa.u64 %rd24, %rd23, %r12;
	ld.u32 %r25, [%rd24];
	getctarank.shared::cluster.u32 %r26, %r23;
	mad.lo.s32 %r30, %r2, 64, %r1;
	mul.wide.u32 %rd10, %r30, 32;
	add.s64 %rd11, %rd1, %rd10;
	st.global.v2.f32 [%rd11], {%f3, %f4};
	st.global.v2.u32 [%rd11+8], {%r24, %r25};
	st.global.u32 [%rd11+16], %r26;
	barrier.cluster.arrive;
	barrier.cluster.wait;)"};
  Buffer<uint32_t> out(8 * 64 * 8);
  expect_in_every_order(
      source, blocks_of(64, 8, 0, 4), {out}, [] {},
      [&] {
        for (uint32_t i = 0; i < 512; ++i) {
          const uint32_t block = i / 64, before = block / 4 * 4 + (block + 3) % 4,
                         next = block / 4 * 4 + (block + 1) % 4;
          const auto given = static_cast<float>(before * 1000 + i % 64);
          const std::vector<uint32_t> expected = {std::bit_cast<uint32_t>(given), std::bit_cast<uint32_t>(-given),
                                                  before * 1000 + i % 64, next * 1000 + i % 64, before % 4};
          ASSERT_EQ(std::vector<uint32_t>(out.begin() + 8 * i, out.begin() + 8 * i + 5), expected) << i;
        }
      });
}

// Block 1 sends data to block 0, and arrives there.
TEST(Cluster, RemoteArrival) {
  const std::string body = R"(
	.shared .align 16 .b8 tile[128];
	.shared .align 8 .b8 barrier[8];
	mov.u32 %r10, barrier;
	mov.u32 %r11, tile;
	shl.b32 %r12, %r1, 2;
	add.s32 %r13, %r11, %r12;
	setp.ne.s32 %p1, %r1, 0;
	@!%p1 mbarrier.init.shared::cta.b64 [%r10], 32;
	fence.mbarrier_init.release.cluster;
	barrier.cluster.arrive.release.aligned;
	barrier.cluster.wait.acquire.aligned;
	mov.u32 %r14, %cluster_ctarank;
	setp.ne.s32 %p2, %r14, 0;
	@!%p2 bra $L_receive;
	add.s32 %r15, %r1, 500;
	mapa.shared::cluster.u32 %r16, %r13, 0;
	st.shared::cluster.u32 [%r16], %r15;
	mapa.shared::cluster.u32 %r17, %r10, 0;
	$arrive _, [%r17];
	bra.uni $L_end;
$L_receive:
	{
	.reg .pred done;
	again:
	mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%r10], 0;
	@!done bra again;
	}
	ld.shared.u32 %r18, [%r13];
	mul.wide.u32 %rd10, %r1, 4;
	add.s64 %rd11, %rd1, %rd10;
	st.global.u32 [%rd11], %r18;
$L_end:
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;)";
  for (const std::string arrive : {"mbarrier.arrive.release.cluster.shared::cluster.b64",
                                   "fence.acq_rel.cluster;\n\tmbarrier.arrive.shared::cluster.b64"}) {
    Buffer<uint32_t> out(32);
    expect_in_every_order(
        {with(body, {{"$arrive", arrive}})}, blocks_of(32, 2, 0, 2), {out}, [] {},
        [&] {
          for (uint32_t i = 0; i < 32; ++i) ASSERT_EQ(out[i], 500 + i);
        });
  }
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
