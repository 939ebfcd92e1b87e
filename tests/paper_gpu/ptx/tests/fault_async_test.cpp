// SPDX-License-Identifier: Apache-2.0
// The executor finds data that is used before it has arrived, or overwritten too early.
#include "paper_gpu/ptx/tests/fault.h"

namespace gradmill::paper::ptx::test {
namespace {

// Words in groups of 4: %r12 is the thread's location in the tile, %r14 its partner's in the other warp, %rd20 the
// source.
const std::string kTile = R"(
	.shared .align 128 .b8 tile[1024];
	mov.u32 %r10, tile;
	and.b32 %r11, %r1, 31;
	shl.b32 %r11, %r11, 4;
	add.s32 %r12, %r10, %r11;
	cvt.u64.u32 %rd19, %r11;
	add.s64 %rd20, %rd1, %rd19;
	setp.eq.s32 %p1, %r1, 0;
)";
const std::string kCopy = "\tcp.async.cg.shared.global [%r12], [%rd20], 16;\n";
const std::string kRead = "\tld.shared.u32 %r20, [%r12];\n\tst.global.u32 [%rd11], %r20;\n";
const std::string kReadOther =
    "\txor.b32 %r15, %r11, 256;\n\tadd.s32 %r16, %r10, %r15;\n\tld.shared.u32 %r20, [%r16];\n"
    "\tst.global.u32 [%rd11], %r20;\n";
const Launch kWarp = blocks_of(32);
const std::vector<std::string> kEarly = {"wait|async|cop|arriv|race|flight", "shared"};

TEST(FaultAsync, Copies) {
  expect_faults({
      {"read without a wait", kTile + kCopy + "cp.async.commit_group; $fault" + kRead, "", "cp.async.wait_group 0;",
       kEarly, kWarp},
      {"no group is closed", kTile + kCopy + "$fault cp.async.wait_group 0;" + kRead, "", "cp.async.commit_group;",
       kEarly, kWarp},
      {"one group too many is left open",
       kTile + "cp.async.cg.shared.global [%r12+512], [%rd20], 16; cp.async.commit_group;" + kCopy +
           "cp.async.commit_group; cp.async.wait_group $fault;" + kRead,
       "1", "0", kEarly, kWarp},
      {"other threads' copies", kTile + kCopy + "cp.async.commit_group; cp.async.wait_group 0; $fault" + kReadOther, "",
       "bar.warp.sync -1;", kEarly, kWarp},
      {"overwritten while others read",
       kTile + kCopy + "cp.async.wait_all; bar.warp.sync -1;" + kReadOther + "$fault" + kCopy + "cp.async.wait_all;" +
           kRead,
       "",
       "bar.warp.sync -1;",
       {"race|sync|async"},
       kWarp},
      {"written by hand at the same time",
       kTile + kCopy + "$fault st.shared.u32 [%r12], %r1; cp.async.wait_all;" + kRead,
       "",
       "cp.async.wait_all;",
       {"race|wait|async|cop|flight"},
       kWarp},
      {"arrives at a barrier that nobody waits for",
       ".shared .align 8 .b8 barrier[8];" + kTile +
           "mov.u32 %r30, barrier; @%p1 mbarrier.init.shared::cta.b64 [%r30], "
           "32; bar.sync 0;" +
           kCopy + "cp.async.mbarrier.arrive.noinc.shared.b64 [%r30];\n$fault" + kReadOther,
       "", wait_for("%r30", "0"), kEarly, kWarp},
  });
}

// Thread 0 requests the tile.
const std::string kBulkLoad = kTile + R"(
	.shared .align 8 .b8 barrier[8];
	mov.u32 %r30, barrier;
	@%p1 mbarrier.init.shared::cta.b64 [%r30], 1;
	@%p1 fence.mbarrier_init.release.cluster;
	bar.sync 0;
	@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], $bytes;
	@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd101], 512, [%r30];
)";

TEST(FaultAsync, BulkLoads) {
  const std::string load = with(kBulkLoad, {{"$bytes", "512"}}), wait = wait_for("%r30", "0");
  expect_faults({
      {"read without a wait", load + "$fault" + kRead, "bar.sync 0;", wait, kEarly},
      {"a wait for the phase before",
       load + wait_for("%r30", "$fault") + kRead,
       "1",
       "0",
       {"wait|cop|race|nothing has written", "shared"}},
      {"more bytes expected than come",
       with(kBulkLoad, {{"$bytes", "$fault"}}) + wait + kRead,
       "528",
       "512",
       {"barrier|wait|deadlock|bytes"}},
      {"overwritten while others read",
       load + wait + kRead +
           "$fault @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 512; "
           "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd101], "
           "512, [%r30];\n" +
           wait_for("%r30", "1"),
       "",
       "fence.proxy.async.shared::cta; bar.sync 0;",
       {"race|sync|async|cop|read"}},
      {"a size that is not a multiple of 16",
       kTile +
           "setp.eq.s32 %p2, %r1, 32; .shared .align 8 .b8 barrier[8]; mov.u32 %r30, barrier; "
           "@%p1 mbarrier.init.shared::cta.b64 [%r30], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0; "
           "mov.u32 %r31, $fault; "
           "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], %r31; "
           "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd101], %r31, "
           "[%r30];\n" +
           wait,
       "264",
       "272",
       {"16|align|size|bytes"}},
      {"a barrier that nobody has made",
       ".shared .align 8 .b8 barrier[8]; mov.u32 %r30, barrier; setp.eq.s32 %p1, %r1, 0; "
       "$fault bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [%r30];",
       "",
       "@%p1 mbarrier.init.shared::cta.b64 [%r30], 64;",
       {"barrier|initial|init"}},
  });
}

// Every thread writes its part, and thread 0 stores all of it. kBehind is the text after that.
const std::string kBulkStore = kTile + R"(
	.reg .b32 %other;
	mov.u32 %other, 3;
	setp.lt.u32 %p2, %r1, 32;
	@%p2 st.shared.v4.u32 [%r12], {%r1, %r1, %r1, %r1};
	$fence
	bar.sync 0;
	@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd102], [%r10], 512;
	@%p1 cp.async.bulk.commit_group;
	$wait
	bar.sync 0;
)";

TEST(FaultAsync, BulkStores) {
  const std::string fence = "fence.proxy.async.shared::cta;", wait = "@%p1 cp.async.bulk.wait_group.read 0;";
  expect_faults({
      {"without a fence", with(kBulkStore, {{"$fence", "$fault"}, {"$wait", wait}}), "", fence, {"fence|proxy"}},
      {"a fence of one thread, after the barrier",
       with(kBulkStore, {{"$fence", ""}, {"bar.sync 0;\n\t@%p1 cp", "$fault @%p1 cp"}, {"$wait", wait}}),
       "bar.sync 0; @%p1 " + fence,
       fence + " bar.sync 0;",
       {"fence|proxy"}},
      {"overwritten before it has left",
       with(kBulkStore, {{"$fence", fence}, {"$wait", "$fault"}}) + "@%p2 st.shared.u32 [%r12], %other; "
                                                                    "@%p1 cp.async.bulk.wait_group 0;",
       "",
       wait,
       {"wait|race|async|cop|flight|read"}},
      {"the block ends before it has left",
       with(kBulkStore, {{"$fence", fence}, {"$wait", "$fault"}}),
       "",
       wait,
       {"wait|end|exit|async|flight"}},
      {"written by hand, too",
       with(kBulkStore, {{"$fence", fence}, {"$wait", "$fault"}}) + "@%p1 st.global.u32 [%rd2], %other;",
       wait,
       "@%p1 cp.async.bulk.wait_group 0;",
       {"wait|race|async|cop|flight|writ"}},
  });
}

// A is 64 rows of 16, B is 8 columns of 16, both zero, and the sums are %f1 to %f4.
const std::string kProduct = R"(
	.shared .align 128 .b8 tile[2304];
	mov.u32 %r10, tile;
	mov.u32 %r20, 0;
	mov.u32 %r11, %r1;
$L_fill:
	shl.b32 %r12, %r11, 4;
	add.s32 %r13, %r10, %r12;
	st.shared.v4.u32 [%r13], {%r20, %r20, %r20, %r20};
	add.s32 %r11, %r11, 128;
	setp.lt.u32 %p2, %r11, 144;
	@%p2 bra $L_fill;
	$proxy
	bar.sync 0;
	cvt.u64.u32 %rd20, %r10;
	shr.u64 %rd21, %rd20, 4;
	add.s64 %rd22, %rd21, 68720001024;
	add.s64 %rd23, %rd22, 128;
	mov.f32 %f1, 0f3F800000;
	mov.f32 %f2, 0f3F800000;
	mov.f32 %f3, 0f3F800000;
	mov.f32 %f4, 0f3F800000;
	$fence
	wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd22, %rd23, 1, 1, 1, 0, 0;
	wgmma.commit_group.sync.aligned;
	$wait
	add.f32 %f5, %f1, %f4;
	st.global.f32 [%rd11], %f5;
	$after
)";
std::string product(const std::string& fault) {
  return with(with(kProduct, {{fault, "$fault"}}), {{"$proxy", "fence.proxy.async.shared::cta;"},
                                                    {"$fence", "wgmma.fence.sync.aligned;"},
                                                    {"$wait", "wgmma.wait_group.sync.aligned 0;"},
                                                    {"$after", ""}});
}

TEST(FaultAsync, Products) {
  const Launch launch = blocks_of(128);
  expect_faults({
      {"operands that are not shown to products",
       product("$proxy"),
       "",
       "fence.proxy.async.shared::cta;",
       {"fence|proxy"},
       launch},
      {"sums that were written before", product("$fence"), "", "wgmma.fence.sync.aligned;", {"fence"}, launch},
      {"sums that are read too early",
       product("$wait"),
       "",
       "wgmma.wait_group.sync.aligned 0;",
       {"wait|register"},
       launch},
      {"a batch that is not waited for",
       product("$wait"),
       "wgmma.wait_group.sync.aligned 1;",
       "wgmma.wait_group.sync.aligned 0;",
       {"wait|register"},
       launch},
      {"operands that are overwritten",
       with(product("$after"),
            {{"wgmma.wait_group.sync.aligned 0;\n\tadd.f32 %f5, %f1, %f4;\n\tst.global.f32 [%rd11], %f5;", ""}}) +
           "\n\twgmma.wait_group.sync.aligned 0;",
       "st.shared.u32 [%r13], %r1;",
       "wgmma.wait_group.sync.aligned 0; bar.sync 0; st.shared.u32 [%r13], %r1;",
       {"wait|race|async|product|read"},
       launch},
  });
}

// A block of a cluster must have started, and must not have ended, when others write to it.
TEST(FaultAsync, Clusters) {
  const std::string body = R"(
	.shared .align 4 .b8 tile[256];
	mov.u32 %r10, tile;
	mad.lo.s32 %r11, %r1, 4, %r10;
	mov.u32 %r12, %cluster_ctarank;
	xor.b32 %r13, %r12, 1;
	$first
	mapa.shared::cluster.u32 %r14, %r11, %r13;
	st.shared::cluster.u32 [%r14], %r1;
	$second
	ld.shared.u32 %r15, [%r11];
	st.global.u32 [%rd11], %r15;)";
  const std::string sync = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
  const Launch launch = blocks_of(64, 2, 0, 2);
  expect_faults({
      {"read without a barrier",
       with(body, {{"$first", sync}, {"$second", "$fault"}}),
       "bar.sync 0;",
       sync,
       {"race|cluster|sync|writ"},
       launch},
      {"written before the block has started",
       with(body, {{"$first", "$fault"}, {"$second", sync}}),
       "",
       sync,
       {"cluster|start|race"},
       launch},
      {"no such block",
       with(body, {{"$first", sync + "add.s32 %r13, %r13, $fault;"}, {"$second", sync}}),
       "2",
       "0",
       {"cluster|block|rank"},
       launch},
  });
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
