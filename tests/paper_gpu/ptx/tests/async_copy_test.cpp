// SPDX-License-Identifier: Apache-2.0
// Copies that run while the kernel continues: cp.async and cp.async.bulk.
#include <algorithm>

#include "paper_gpu/ptx/tests/kernel.h"

namespace gradmill::paper::ptx::test {
namespace {

// The 16 bytes of each thread: %r12 in shared memory, %rd11 in the input, %rd12 in the output.
const std::string kPlaces = R"(
	.shared .align 128 .b8 tile[4096];
	mov.u32 %r10, tile;
	shl.b32 %r11, %r1, 4;
	add.s32 %r12, %r10, %r11;
	cvt.u64.u32 %rd10, %r11;
	add.s64 %rd11, %rd1, %rd10;
	add.s64 %rd12, %rd2, %rd10;
)";
const std::string kStore = R"(
	ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r12];
	st.global.v4.u32 [%rd12], {%r20, %r21, %r22, %r23};
)";

std::vector<uint8_t> noise(size_t size) {
  restart_random();
  std::vector<uint8_t> bytes(size);
  for (uint8_t& each : bytes) each = static_cast<uint8_t>(random_bits());
  return bytes;
}

struct Copy {
  std::string text;
  uint32_t bytes;
  uint32_t sizes = 1;  // the source has tid % sizes bytes; 1: all
};

void expect_copy(const Copy& copy) {
  const std::string body = kPlaces + R"(
	mov.u32 %r13, -1;
	st.shared.v4.u32 [%r12], {%r13, %r13, %r13, %r13};
	rem.u32 %r14, %r1, )" +
                           std::to_string(copy.sizes) + ";\n\t" + copy.text + "\n\tcp.async.wait_all;\n" + kStore;
  const Buffer<uint8_t> in(noise(1024));
  Buffer<uint8_t> out(1024, false);
  expect_in_every_order(
      {body, 2}, blocks_of(64), {in, out}, [] {},
      [&] {
        for (uint32_t i = 0; i < 1024; ++i) {
          const uint32_t at = i % 16, size = copy.sizes == 1 ? copy.bytes : i / 16 % copy.sizes;
          const uint8_t copied = at < size ? in[i] : 0;
          ASSERT_EQ(out[i], at < copy.bytes ? copied : 0xff) << copy.text << " in byte " << i;
        }
      });
}

TEST(AsyncCopy, Sizes) {
  const Copy copies[] = {
      {"cp.async.ca.shared.global [%r12], [%rd11], 4;", 4},
      {"cp.async.ca.shared.global [%r12], [%rd11], 8;", 8},
      {"cp.async.ca.shared.global [%r12], [%rd11], 16;", 16},
      {"cp.async.cg.shared.global [%r12], [%rd11], 16;", 16},
      {"cp.async.ca.shared.global [%r12], [%rd11], 4, %r14;", 4, 5},
      {"cp.async.ca.shared.global [%r12], [%rd11], 8, %r14;", 8, 9},
      {"cp.async.ca.shared.global [%r12], [%rd11], 16, %r14;", 16, 17},
      {"cp.async.cg.shared.global [%r12], [%rd11], 16, %r14;", 16, 17},
      {"cp.async.ca.shared.global.L2::128B [%r12], [%rd11], 8;", 8},
      {"cp.async.cg.shared::cta.global.L2::256B [%r12], [%rd11], 16;", 16},
  };
  for (const Copy& copy : copies) expect_copy(copy);
}

// If the source has no bytes, its address is ignored.
TEST(AsyncCopy, OfNothing) {
  const std::string body = kPlaces + R"(
	setp.lt.u32 %p1, %r1, 32;
	selp.b32 %r13, 16, 0, %p1;
	selp.b64 %rd13, %rd11, %rd1, %p1;
	cp.async.cg.shared.global [%r12], [%rd13], 16, %r13;
	cp.async.commit_group;
	cp.async.wait_group 0;)" +
                           kStore;
  const Buffer<uint8_t> in(noise(512));
  Buffer<uint8_t> out(1024, false);
  expect_in_every_order(
      {body, 2}, blocks_of(64), {in, out}, [] {},
      [&] {
        for (uint32_t i = 0; i < 1024; ++i) ASSERT_EQ(out[i], i < 512 ? in[i] : 0);
      });
}

// A block may end without waiting for its copies. This must not affect later blocks.
TEST(AsyncCopy, LeftBehindByABlock) {
  const std::string body = kPlaces + R"(
	cp.async.cg.shared.global [%r12], [%rd11], 16;)";
  const Buffer<uint8_t> in(noise(1024));
  Buffer<uint8_t> out(1024, false);
  expect_in_every_order(
      {body, 2}, blocks_of(64, 3), {in, out}, [] {}, [] {});
}

// Three groups of copies; each is read as soon as it must have arrived.
TEST(AsyncCopy, Groups) {
  std::string body = kPlaces;
  for (int group = 0; group < 3; ++group) {
    const std::string offset = std::to_string(1024 * group);
    body += "\tcp.async.ca.shared.global [%r12+" + offset + "], [%rd11+" + offset + "], 8;\n";
    body += "\tcp.async.ca.shared.global [%r12+" + std::to_string(1024 * group + 8) + "], [%rd11+" +
            std::to_string(1024 * group + 8) + "], 8;\n\tcp.async.commit_group;\n";
  }
  for (int group = 0; group < 3; ++group) {
    const std::string offset = "+" + std::to_string(1024 * group) + "]";
    body += "\tcp.async.wait_group " + std::to_string(2 - group) + ";\n" +
            with(kStore, {{"[%r12]", "[%r12" + offset}, {"[%rd12]", "[%rd12" + offset}});
  }
  const Buffer<uint8_t> in(noise(3072));
  Buffer<uint8_t> out(3072, false);
  expect_in_every_order(
      {body, 2}, blocks_of(64), {in, out}, [] {}, [&] { EXPECT_EQ(std::memcmp(in.begin(), out.begin(), 3072), 0); });
}

// Copies of other threads are waited for at a barrier: each thread's arrival follows its copies.
TEST(AsyncCopy, ArrivesAtBarrier) {
  const std::string body = R"(
	.shared .align 8 .b8 barrier[8];
)" + kPlaces + R"(
	mov.u32 %r30, barrier;
	setp.ne.s32 %p1, %r1, 0;
	@!%p1 mbarrier.init.shared::cta.b64 [%r30], 64;
	bar.sync 0;
	cp.async.cg.shared.global [%r12], [%rd11], 16;
	cp.async.mbarrier.arrive.noinc.shared.b64 [%r30];
)" + wait_for("%r30", "0") +
                           R"(
	xor.b32 %r31, %r11, 1008;
	add.s32 %r12, %r10, %r31;)" +
                           kStore;
  const Buffer<uint8_t> in(noise(1024));
  Buffer<uint8_t> out(1024, false);
  expect_in_every_order(
      {body, 2}, blocks_of(64), {in, out}, [] {},
      [&] {
        for (uint32_t i = 0; i < 1024; ++i) ASSERT_EQ(out[i], in[i ^ 1008]);
      });
}

// Two alternating stages of 1024 bytes: thread 0 requests them, and all threads wait and read.
TEST(AsyncCopy, BulkLoads) {
  const std::string body = kPlaces + R"(
	.shared .align 8 .b8 barriers[16];
	mov.u32 %r30, barriers;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra $L_started;
	mbarrier.init.shared::cta.b64 [%r30], 1;
	mbarrier.init.shared::cta.b64 [%r30+8], 1;
	fence.mbarrier_init.release.cluster;
$L_started:
	bar.sync 0;
	mov.u32 %r31, 0;
$L_loop:
	and.b32 %r32, %r31, 1;
	shl.b32 %r33, %r32, 3;
	add.s32 %r34, %r30, %r33;
	shl.b32 %r35, %r32, 10;
	add.s32 %r36, %r10, %r35;
	shr.u32 %r37, %r31, 1;
	@%p1 bra $L_asked;
	shl.b32 %r38, %r31, 10;
	cvt.u64.u32 %rd20, %r38;
	add.s64 %rd21, %rd101, %rd20;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r34], 1024;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r36], [%rd21], 768, [%r34];
	add.s64 %rd22, %rd21, 768;
	add.s32 %r39, %r36, 768;
	mov.u32 %r40, 256;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r39], [%rd22], %r40, [%r34];
$L_asked:
)" + wait_for("%r34", "%r37") +
                           R"(
	add.s32 %r41, %r36, %r11;
	ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r41];
	mad.lo.s32 %r42, %r31, 1024, %r11;
	cvt.u64.u32 %rd23, %r42;
	add.s64 %rd24, %rd2, %rd23;
	st.global.v4.u32 [%rd24], {%r20, %r21, %r22, %r23};
	fence.proxy.async.shared::cta;
	bar.sync 0;
	add.s32 %r31, %r31, 1;
	setp.lt.u32 %p2, %r31, 4;
	@%p2 bra $L_loop;)";
  const Buffer<uint8_t> in(noise(4096));
  Buffer<uint8_t> out(4096, false);
  expect_in_every_order(
      {body, 2}, blocks_of(64), {in, out}, [] {}, [&] { EXPECT_EQ(std::memcmp(in.begin(), out.begin(), 4096), 0); });
}

TEST(AsyncCopy, BulkStores) {
  for (const std::string wait : {"cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"}) {
    const std::string body = kPlaces + R"(
	ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd11];
	st.shared.v4.u32 [%r12], {%r20, %r21, %r22, %r23};
	fence.proxy.async.shared::cta;
	bar.sync 0;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra $L_stored;
	cp.async.bulk.global.shared::cta.bulk_group [%rd102], [%r10], 512;
	cp.async.bulk.commit_group;
	add.s64 %rd20, %rd102, 512;
	createpolicy.fractional.L2::evict_first.b64 %rd21, 1.0;
	cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd20], [%r10+512], 512, %rd21;
	cp.async.bulk.commit_group;
	)" + wait + R"(
$L_stored:
	bar.sync 0;
	mov.u32 %r24, 0;
	st.shared.u32 [%r12], %r24;)";
    const Buffer<uint8_t> in(noise(1024));
    Buffer<uint8_t> out(1024, false);
    expect_in_every_order(
        {body, 2}, blocks_of(64), {in, out}, [&] { std::fill(out.begin(), out.end(), uint8_t{0}); },
        [&] { EXPECT_EQ(std::memcmp(in.begin(), out.begin(), 1024), 0); });
  }
}

// After the copy engine has read memory, it may write there again without a proxy fence: after thread 0 has waited for
// the store, thread 32 loads other bytes to the same location.
TEST(AsyncCopy, BulkLoadsWhereAStoreHasRead) {
  const std::string body = kPlaces + R"(
	.shared .align 8 .b8 barrier[8];
	mov.u32 %r30, barrier;
	setp.eq.s32 %p1, %r1, 0;
	setp.eq.s32 %p2, %r1, 32;
	@%p1 mbarrier.init.shared::cta.b64 [%r30], 1;
	@%p1 fence.mbarrier_init.release.cluster;
	ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd11];
	st.shared.v4.u32 [%r12], {%r20, %r21, %r22, %r23};
	fence.proxy.async.shared::cta;
	bar.sync 0;
	@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd102], [%r10], 1024;
	@%p1 cp.async.bulk.commit_group;
	@%p1 cp.async.bulk.wait_group.read 0;
	bar.sync 0;
	add.s64 %rd20, %rd101, 1024;
	@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 1024;
	@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd20], 1024, [%r30];
)" + wait_for("%r30", "0") +
                           R"(
	ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r12];
	st.global.v4.u32 [%rd12+1024], {%r20, %r21, %r22, %r23};)";
  const Buffer<uint8_t> in(noise(2048));
  Buffer<uint8_t> out(2048, false);
  expect_in_every_order(
      {body, 2}, blocks_of(64), {in, out}, [] {}, [&] { EXPECT_EQ(std::memcmp(in.begin(), out.begin(), 2048), 0); });
}

// Instructions that affect only timing.
TEST(AsyncCopy, HintsAndFences) {
  const std::string body = kPlaces + R"(
	griddepcontrol.wait;
	prefetch.global.L2 [%rd11];
	prefetch.global.L1 [%rd11];
	prefetch.global.L2::evict_last [%rd11];
	prefetchu.L1 [%rd101];
	cp.async.bulk.prefetch.L2.global [%rd101], 1024;
	createpolicy.fractional.L2::evict_last.b64 %rd20, 0.5;
	ld.global.L2::cache_hint.v4.u32 {%r20, %r21, %r22, %r23}, [%rd11], %rd20;
	fence.acq_rel.cta;
	fence.acq_rel.gpu;
	fence.sc.cta;
	membar.cta;
	membar.gl;
	fence.proxy.async;
	fence.proxy.async.global;
	nanosleep.u32 20;
	st.global.v4.u32 [%rd12], {%r20, %r21, %r22, %r23};
	griddepcontrol.launch_dependents;)";
  const Buffer<uint8_t> in(noise(1024));
  Buffer<uint8_t> out(1024, false);
  expect_runs({body, 2}, blocks_of(64), {in, out});
  EXPECT_EQ(std::memcmp(in.begin(), out.begin(), 1024), 0);
}

// setmaxnreg has no effect that the kernel can see.
TEST(AsyncCopy, Registers) {
  const Source source{R"(
	shr.u32 %r10, %r1, 7;
	setp.ne.s32 %p1, %r10, 0;
	@%p1 bra $L_worker;
	setmaxnreg.dec.sync.aligned.u32 40;
	bra.uni $L_end;
$L_worker:
	setmaxnreg.inc.sync.aligned.u32 232;
$L_end:
	mul.wide.u32 %rd10, %r1, 4;
	add.s64 %rd11, %rd1, %rd10;
	st.global.u32 [%rd11], %r10;)",
                      1, "", ".maxntid 256, 1, 1\n.minnctapersm 1\n"};
  Buffer<uint32_t> out(256, false);
  expect_runs(source, blocks_of(256), {out});
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(out[i], i / 128);
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
