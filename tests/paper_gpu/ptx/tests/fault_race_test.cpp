// SPDX-License-Identifier: Apache-2.0
// The executor finds races, and barriers that not all threads reach.
#include "paper_gpu/ptx/tests/fault.h"

namespace gradmill::paper::ptx::test {
namespace {

// %r12: the thread's word of the tile; %r14: that of its partner in the other warp; %r16: that of its partner in its
// own warp.
const std::string kTile = R"(
	.shared .align 16 .b8 tile[256];
	mov.u32 %r10, tile;
	shl.b32 %r11, %r1, 2;
	add.s32 %r12, %r10, %r11;
	xor.b32 %r13, %r11, 128;
	add.s32 %r14, %r10, %r13;
	xor.b32 %r15, %r11, 124;
	add.s32 %r16, %r10, %r15;
	setp.lt.u32 %p1, %r1, 32;
	setp.eq.s32 %p2, %r1, 0;
	setp.eq.s32 %p3, %r1, 32;
)";
const std::string kWriteR20 = "\tst.global.u32 [%rd11], %r20;\n";
const std::vector<std::string> kRace = {"race|barrier|order|sync", "shared"};
// The reader may come first and then reads unwritten memory.
const std::vector<std::string> kTooEarlyGlobal = {"race|nothing has written", "global|bytes at"};
const std::vector<std::string> kTooEarlyShared = {"race|nothing has written", "shared"};
const std::vector<std::string> kGlobalRace = {"race|barrier|order|sync", "global"};

TEST(FaultRace, InShared) {
  expect_faults({
      {"write, then read by another warp",
       kTile + "st.shared.u32 [%r12], %r1; $fault ld.shared.u32 %r20, [%r14];" + kWriteR20, "bar.warp.sync -1;",
       "bar.sync 0;", kTooEarlyShared},
      {"read, then write by another warp",
       kTile + "st.shared.u32 [%r12], %r1; bar.sync 0; ld.shared.u32 %r20, [%r14]; $fault st.shared.u32 [%r12], %r20;",
       "", "bar.sync 0;", kRace},
      {"written by two warps", kTile + "@%p2 st.shared.u32 [%r10], %r1; $fault @%p3 st.shared.u32 [%r10], %r1;", "",
       "bar.sync 0;", kRace},
      {"written by two warps as different bytes",
       kTile + "cvt.u16.u32 %rs1, %r1; add.s32 %r17, %r10, $fault; @%p2 st.shared.u8 [%r10], %rs1; "
               "@%p3 st.shared.u8 [%r17], %rs1;",
       "0", "1", kRace},
      {"each warp meets only itself",
       kTile + "st.shared.u32 [%r12], %r1; $fault ld.shared.u32 %r20, [%r14];" + kWriteR20,
       "selp.u32 %r17, 1, 2, %p1; bar.sync %r17, 32;", "bar.sync 2, 64;", kTooEarlyShared},
      {"a sum beside plain reads",
       kTile +
           "mov.u32 %r17, 0; @%p2 st.shared.u32 [%r10], %r17; bar.sync 0; red.shared.add.u32 [%r10], 1; $fault "
           "ld.shared.u32 %r20, [%r10];" +
           kWriteR20,
       "", "bar.sync 0;", kRace},
  });
}

TEST(FaultRace, InAWarp) {
  expect_faults({
      {"an exchange", kTile + "st.shared.u32 [%r12], %r1; $fault ld.shared.u32 %r20, [%r16];" + kWriteR20, "",
       "bar.warp.sync -1;", kRace, blocks_of(32)},
      {"an exchange of halves",
       kTile + "st.shared.u32 [%r12], %r1; bar.warp.sync -1; ld.shared.u32 %r20, [%r16]; $fault "
               "st.shared.u32 [%r12], %r20;",
       "", "bar.warp.sync -1;", kRace, blocks_of(32)},
      {"different values in one place",
       kTile + "st.shared.u32 [%r10], $fault;",
       "%r1",
       "%r2",
       {"race|lanes|same|both"},
       blocks_of(32)},
      {"different values in one place of global memory",
       "st.global.u32 [%rd2], $fault;",
       "%r1",
       "%r2",
       {"race|lanes|same|both"},
       blocks_of(32)},
      {"vectors that overlap",
       kTile + "and.b32 %r17, %r11, 120; add.s32 %r18, %r17, %r10;  "
               "st.shared.v2.u32 [%r18], {$fault, %r2};",
       "%r1",
       "%r2",
       {"race|lanes|same|both"},
       blocks_of(32)},
  });
}

// Lanes of a warp that nothing has synchronised: fences and arrivals do not.
TEST(FaultRace, LanesThatHaveNotMet) {
  const std::string barrier = R"(
	.shared .align 8 .b8 barrier[8];
	mov.u32 %r30, barrier;
	@%p2 mbarrier.init.shared::cta.b64 [%r30], 1;
	bar.sync 0;
)";
  const std::string arrive = "mbarrier.arrive.shared::cta.b64 _, [%r30]; ";
  expect_faults({
      {"read by all what the first one wrote",
       kTile + "@%p2 st.shared.u32 [%r10], %r2; $fault ld.shared.u32 %r20, [%r10];" + kWriteR20, "",
       "bar.warp.sync -1;", kTooEarlyShared, blocks_of(32)},
      {"overwritten by the first one, read by all",
       kTile + "@%p2 st.shared.u32 [%r10], %r2; bar.warp.sync -1; ld.shared.u32 %r20, [%r10]; $fault "
               "@%p2 st.shared.u32 [%r10], %r20;",
       "", "bar.warp.sync -1;", kRace, blocks_of(32)},
      {"an exchange with a fence", kTile + "st.shared.u32 [%r12], %r1; $fault ld.shared.u32 %r20, [%r16];" + kWriteR20,
       "fence.proxy.async.shared::cta; membar.cta;", "bar.warp.sync -1;", kRace, blocks_of(32)},
      {"an exchange after one lane has arrived",
       kTile + barrier + "st.shared.u32 [%r12], %r1; $fault @%p2 " + arrive + "ld.shared.u32 %r20, [%r16];" + kWriteR20,
       "", "bar.warp.sync -1;", kRace, blocks_of(32)},
      {"one arrives for all that have written",
       kTile + barrier + "@!%p1 bra $L_reads; st.shared.u32 [%r12], %r1; $fault @%p2 " + arrive +
           "bra.uni $L_end;\n$L_reads:\n" + wait_for("%r30", "0") + "ld.shared.u32 %r20, [%r14];" + kWriteR20 +
           "$L_end:",
       "", "bar.warp.sync -1;", kTooEarlyShared},
      {"one arrives for all that have read",
       kTile + barrier + "st.shared.u32 [%r12], %r1; bar.sync 0; @!%p1 bra $L_writes; ld.shared.u32 %r20, [%r14]; " +
           kWriteR20 + "$fault @%p2 " + arrive + "bra.uni $L_end;\n$L_writes:\n" + wait_for("%r30", "0") +
           "st.shared.u32 [%r12], %r2;\n$L_end:",
       "", "bar.warp.sync -1;", kRace},
      {"one waits for all that read",
       kTile + barrier + "@!%p1 bra $L_reads; @%p2 st.shared.u32 [%r12], %r1; @%p2 " + arrive +
           "bra.uni $L_end;\n$L_reads: @!%p3 bra $L_told;\n" + wait_for("%r30", "0") +
           "$L_told: $fault ld.shared.u32 %r20, [%r10];" + kWriteR20 + "$L_end:",
       "", "bar.warp.sync -1;", kTooEarlyShared},
      {"one arrives after it has read global memory",
       kTile + barrier +
           "@!%p1 bra $L_writes; @%p2 ld.global.u32 %r20, [%rd1]; @%p2 st.shared.u32 [%r12], %r20; @%p2 " + arrive +
           "bra.uni $L_end;\n$L_writes:\n" + wait_for("%r30", "$fault") + "@%p3 st.global.u32 [%rd1], %r2;\n$L_end:",
       "1", "0", kGlobalRace},
      {"one arrives for itself",
       kTile + barrier + "@!%p1 bra $L_reads; @%p2 st.shared.u32 [%r12], %r1; @%p2 " + arrive +
           "bra.uni $L_end;\n$L_reads:\n" + wait_for("%r30", "$fault") + "ld.shared.u32 %r20, [%r10];" + kWriteR20 +
           "$L_end:",
       "1", "0", kTooEarlyShared},
  });
}

TEST(FaultRace, InGlobal) {
  const std::string other_block =
      "xor.b32 %r10, %r9, $fault; mul.wide.u32 %rd20, %r10, 4; add.s64 %rd21, %rd2, %rd20; ";
  expect_faults({
      {"written by one block, read by the other",
       other_block + "st.global.u32 [%rd11], %r1; bar.sync 0; ld.global.u32 %r20, [%rd21]; add.s32 %r20, %r20, 1; "
                     "st.global.u32 [%rd11+512], %r20;",
       "64", "63", kTooEarlyGlobal, blocks_of(64, 2)},
      {"written by two blocks", "st.global.u32 [$fault], %r2;", "%rd2", "%rd11", kGlobalRace, blocks_of(1, 2)},
      {"a sum beside a plain write",
       "setp.eq.s32 %p1, %r2, 0; mov.u32 %r20, 3; @%p1 $fault; @!%p1 red.global.add.u32 "
       "[%rd3], 1;",
       "st.global.u32 [%rd3], %r20", "red.global.add.u32 [%rd3], %r20", kGlobalRace, blocks_of(1, 2)},
      {"a sum beside a plain read",
       "setp.eq.s32 %p1, %r2, 0; mov.u32 %r20, 3; @%p1 ld.global.u32 %r20, [$fault]; "
       "@!%p1 red.global.add.u32 [%rd3], 1; st.global.u32 [%rd11], %r20;",
       "%rd3", "%rd3+4", kGlobalRace, blocks_of(1, 2)},
      {"between warps of a block",
       "xor.b32 %r10, %r1, 32; mul.wide.u32 %rd20, %r10, 4; add.s64 %rd21, %rd2, %rd20; st.global.u32 [%rd11], %r1; "
       "$fault ld.global.u32 %r20, [%rd21]; st.global.u32 [%rd11+512], %r20;",
       "", "bar.sync 0;", kTooEarlyGlobal},
  });
}

// The last block to count reads what the others wrote.
TEST(FaultRace, LastBlock) {
  expect_fault({"a counter that orders nothing", R"(
	.shared .align 4 .b8 is_last[4];
	st.global.u32 [%rd11], %r1;
	bar.sync 0;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra $L_counted;
	atom.$fault.gpu.global.add.u32 %r10, [%rd3], 1;
	setp.eq.s32 %p2, %r10, 3;
	selp.u32 %r11, 1, 0, %p2;
	st.shared.u32 [is_last], %r11;
$L_counted:
	bar.sync 0;
	ld.shared.u32 %r12, [is_last];
	setp.eq.s32 %p3, %r12, 0;
	@%p3 ret;
	mul.wide.u32 %rd20, %r1, 16;
	add.s64 %rd21, %rd2, %rd20;
	ld.global.v4.u32 {%r13, %r14, %r15, %r16}, [%rd21];
	add.s32 %r17, %r13, %r16;
	bar.sync 0;
	st.global.u32 [%rd21], %r17;)",
                "relaxed", "acq_rel", kGlobalRace, blocks_of(64, 4)});
}

TEST(FaultRace, Barriers) {
  expect_faults({
      {"different counts",
       "setp.lt.u32 %p1, %r1, 32; selp.u32 %r10, $fault, 64, %p1; bar.sync 1, %r10;",
       "96",
       "64",
       {"barrier|count"}},
      {"different barriers",
       "setp.lt.u32 %p1, %r1, 32; selp.u32 %r10, $fault, 2, %p1; bar.sync %r10, 64;",
       "1",
       "2",
       {"barrier|wait|deadlock"}},
      {"a warp has gone",
       "setp.lt.u32 %p1, %r1, $fault; @%p1 ret; bar.sync 1, 64;",
       "32",
       "0",
       {"barrier|wait|deadlock"}},
      {"nobody waits any more",
       "setp.lt.u32 %p1, %r1, 32; @%p1 bra $L_arrive; bar.sync 1, 64; $fault bra.uni $L_end;\n"
       "$L_arrive: bar.arrive 1, 64;\n$L_end:",
       "bar.sync 1, 64;",
       "",
       {"barrier|wait|deadlock"}},
      {"half of a warp",
       "setp.lt.u32 %p1, %r1, $fault; @%p1 bra $L_over; bar.sync 0;\n$L_over: bar.warp.sync -1;",
       "16",
       "0",
       {"barrier|lanes|warp|diverg"}},
      {"a count that is no warps", "mov.u32 %r10, $fault; bar.sync 1, %r10;", "40", "64", {"barrier|count|32"}},
      {"a barrier in memory that nobody arrives at",
       ".shared .align 8 .b8 barrier[8]; mov.u32 %r10, barrier; setp.eq.s32 %p1, %r1, 0; "
       "@%p1 mbarrier.init.shared::cta.b64 [%r10], $fault; bar.sync 0; "
       "mbarrier.arrive.shared::cta.b64 _, [%r10];\n" +
           wait_for("%r10", "0"),
       "65",
       "64",
       {"barrier|wait|deadlock"}},
  });
}

TEST(FaultRace, TooManyBarriersToCount) {
  expect_fault({"barriers",
                "mov.u32 %r10, 0;\n$L_again: bar.sync 0; add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, "
                "$fault; @%p1 bra $L_again;",
                "70000",
                "1000",
                {"too often", "PAPER_CHECKS"}});
}

TEST(FaultRace, Masks) {
  expect_faults({
      {"a shuffle of half a warp",
       "setp.ge.u32 %p1, %r1, 16; @%p1 bra $L_over; shfl.sync.bfly.b32 %r20, %r1, 1, 31, "
       "$fault; st.global.u32 [%rd11], %r20;\n$L_over: bar.warp.sync -1;",
       "-1",
       "0xffff",
       {"mask|lanes"},
       blocks_of(32)},
      {"a vote of half a warp",
       "setp.ge.u32 %p1, %r1, 16; @%p1 bra $L_over; vote.sync.ballot.b32 %r20, %p1, $fault; "
       "st.global.u32 [%rd11], %r20;\n$L_over: bar.warp.sync -1;",
       "-1",
       "0xffff",
       {"mask|lanes"},
       blocks_of(32)},
      {"a lane that the mask does not name",
       "setp.eq.s32 %p1, %r1, 31; vote.sync.ballot.b32 %r20, %p1, $fault;",
       "0x7fffffff",
       "-1",
       {"mask|lane"},
       blocks_of(32)},
      {"an aligned instruction in half a warp",
       kTile + "st.shared.u32 [%r12], %r1; bar.warp.sync -1; setp.lt.u32 %p4, %r1, $fault; @%p4 bra $L_over; "
               "movmatrix.sync.aligned.m8n8.trans.b16 %r20, %r1;\n$L_over: bar.warp.sync -1;",
       "16",
       "0",
       {"lanes|warp|diverg|mask"},
       blocks_of(32)},
  });
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
