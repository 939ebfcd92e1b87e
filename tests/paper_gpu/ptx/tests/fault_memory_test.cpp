// SPDX-License-Identifier: Apache-2.0
// The executor finds accesses to missing, unaligned or unwritten memory.
#include "paper_gpu/ptx/tests/fault.h"

namespace gradmill::paper::ptx::test {
namespace {

const std::string kTile = R"(
	.shared .align 16 .b8 tile[256];
	mov.u32 %r10, tile;
	shl.b32 %r11, %r1, 2;
	add.s32 %r12, %r10, %r11;
)";
const std::string kDepot = R"(
	.local .align 16 .b8 __local_depot0[16];
	.reg .b64 %SP;
	.reg .b64 %SPL;
	mov.u64 %SPL, __local_depot0;
	cvta.local.u64 %SP, %SPL;
	add.u64 %rd20, %SPL, 0;
	mov.u32 %r10, 5;
	st.local.v4.u32 [%rd20], {%r10, %r10, %r10, %r10};
)";
const std::string kWriteR20 = "\tst.global.u32 [%rd11], %r20;\n";

TEST(FaultMemory, OutsideOfGlobal) {
  expect_faults({
      {"a word past the end",
       "ld.global.u32 %r20, [%rd1+$fault];" + kWriteR20,
       "1024",
       "1020",
       {"read", "global|byte"}},
      {"a word before the start", "ld.global.u32 %r20, [%rd1+$fault];" + kWriteR20, "-4", "0", {"read"}},
      {"four words past the end",
       "ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd1+$fault];" + kWriteR20,
       "1024",
       "1008",
       {"read"}},
      {"two long words past the end",
       "ld.global.v2.u64 {%rd20, %rd21}, [%rd1+$fault]; st.global.u64 [%rd2], %rd21;",
       "1024",
       "1008",
       {"read"},
       blocks_of(1)},
      {"writes a byte past the end",
       "cvt.u16.u32 %rs1, %r1; st.global.u8 [%rd2+$fault], %rs1;",
       "1024",
       "1023",
       {"allocated"},
       blocks_of(1)},
      {"one thread too many writes",
       "setp.lt.u32 %p1, %r9, $fault; @%p1 st.global.u32 [%rd11], %r1;",
       "257",
       "256",
       {"allocated"},
       blocks_of(64, 5)},
      {"by a generic address", "ld.u32 %r20, [%rd101+$fault];" + kWriteR20, "1024", "4", {"read"}},
      {"an atomic operation", "red.global.add.u32 [%rd3+$fault], 1;", "64", "60", {"atom|red|read|writ"}},
      {"no address at all",
       "mov.u64 %rd20, %rd1; $fault ld.global.u32 %r20, [%rd20];" + kWriteR20,
       "mov.u64 %rd20, 0;",
       "",
       {"read"}},
      {"a copy to shared memory",
       kTile + "cp.async.ca.shared.global [%r12], [%rd10+$fault], 4; cp.async.wait_all; ld.shared.u32 %r20, [%r12];" +
           kWriteR20,
       "772",
       "768",
       {"read|cop"}},
  });
}

TEST(FaultMemory, OutsideOfShared) {
  expect_faults({
      {"reads past the end",
       kTile + "st.shared.u32 [%r12], %r1; bar.sync 0; ld.shared.u32 %r20, [%r10+$fault];" + kWriteR20,
       "256",
       "252",
       {"shared", "read"}},
      {"writes past the end",
       kTile + "st.shared.u32 [%r12+$fault], %r1;",
       "4",
       "0",
       {"shared", "of which the block has"}},
      {"writes past the end of an array that 16 does not divide",
       ".shared .align 4 .b8 few[60]; mov.u32 %r10, few; setp.eq.s32 %p2, %r1, 0; @%p2 st.shared.u32 [%r10+$fault], "
       "%r1;",
       "60",
       "56",
       {"shared", "of which the block has"}},
      {"by a generic address",
       kTile + "cvt.u64.u32 %rd20, %r12; cvta.shared.u64 %rd21, %rd20; st.u32 [%rd21+$fault], %r1;",
       "4",
       "0",
       {"shared", "of which the block has"}},
      {"past what the launch asks for",
       "mov.u32 %r10, dynamic; shl.b32 %r11, %r1, 2; add.s32 %r12, %r10, %r11; "
       "st.shared.u32 [%r12+$fault], %r1;",
       "4",
       "0",
       {"shared", "of which the block has"},
       blocks_of(64, 1, 256),
       ".extern .shared .align 16 .b8 dynamic[];\n"},
      {"matrices that begin too late",
       kTile +
           "st.shared.u32 [%r12], %r1; bar.sync 0; and.b32 %r13, %r1, 7; shl.b32 %r14, %r13, 4; "
           "add.s32 %r15, %r10, %r14; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r15+$fault];" +
           kWriteR20,
       "144",
       "128",
       {"shared", "read"}},
  });
}

TEST(FaultMemory, OutsideOfLocal) {
  expect_faults({
      {"reads past the end", kDepot + "ld.local.u32 %r20, [%rd20+$fault];" + kWriteR20, "16", "12", {"own memory"}},
      {"writes past the end", kDepot + "st.local.v2.u32 [%rd20+$fault], {%r1, %r1};", "16", "8", {"own memory"}},
      {"by a generic address", kDepot + "ld.u32 %r20, [%SP+$fault];" + kWriteR20, "16", "12", {"own memory"}},
  });
}

TEST(FaultMemory, Alignment) {
  expect_faults({
      {"four words in global memory",
       "ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd1+$fault];" + kWriteR20,
       "8",
       "16",
       {"align"}},
      {"a word", "ld.global.u32 %r20, [%rd1+$fault];" + kWriteR20, "2", "4", {"align"}},
      {"two words in shared memory",
       kTile + "mul.lo.s32 %r13, %r11, $fault; and.b32 %r14, %r13, 127; add.s32 %r15, %r10, %r14; "
               "st.shared.v2.u32 [%r15], {%r1, %r1};",
       "1",
       "2",
       {"align"},
       blocks_of(16)},
      {"two words in local memory", kDepot + "st.local.v2.u32 [%rd20+$fault], {%r1, %r1};", "4", "8", {"align"}},
      {"an atomic operation", "atom.global.add.u64 %rd20, [%rd3+$fault], 1;", "4", "8", {"align"}},
      {"what was copied from there",
       kTile + "cp.async.cg.shared.global [%r10], [%rd1+$fault], 16; cp.async.wait_all;",
       "8",
       "16",
       {"align"},
       blocks_of(1)},
      {"the place of a copy",
       kTile + "cp.async.cg.shared.global [%r10+$fault], [%rd1], 16; cp.async.wait_all;",
       "8",
       "16",
       {"align"},
       blocks_of(1)},
      {"a matrix",
       kTile +
           "st.shared.u32 [%r12], %r1; bar.sync 0; "
           "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r10+$fault];" +
           kWriteR20,
       "8",
       "16",
       {"align"}},
  });
}

TEST(FaultMemory, NotWritten) {
  expect_faults({
      {"global memory", "ld.global.u32 %r20, [$fault];" + kWriteR20, "%rd11", "%rd10", {"writ|initial"}},
      {"by a generic address", "ld.u32 %r20, [$fault];" + kWriteR20, "%rd102", "%rd101", {"writ|initial"}},
      {"the second word of two",
       "st.global.u32 [%rd2], %r1; $fault ld.global.u64 %rd20, [%rd2]; st.global.u64 [%rd2+8], %rd20;",
       "",
       "st.global.u32 [%rd2+4], %r1;",
       {"writ|initial"},
       blocks_of(1)},
      {"a sum", "$fault red.global.add.u32 [%rd11], 1;", "", "st.global.u32 [%rd11], %r1;", {"writ|initial"}},
      {"shared memory",
       kTile + "$fault ld.shared.u32 %r20, [%r12];" + kWriteR20,
       "",
       "st.shared.u32 [%r12], %r1;",
       {"shared", "writ|initial"}},
      {"shared memory of another thread",
       kTile +
           "$fault st.shared.u32 [%r12], %r1; bar.sync 0; xor.b32 %r13, %r11, 252; add.s32 %r14, %r10, %r13; "
           "ld.shared.u32 %r20, [%r14];" +
           kWriteR20,
       "setp.lt.u32 %p1, %r1, 63; @%p1",
       "",
       {"shared", "writ|initial"}},
      {"matrices",
       kTile +
           "$fault st.shared.u32 [%r12], %r1; bar.sync 0; and.b32 %r13, %r1, 7; shl.b32 %r14, %r13, 4; "
           "add.s32 %r15, %r10, %r14; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r15];" +
           kWriteR20,
       "setp.ne.s32 %p1, %r1, 7; @%p1",
       "",
       {"shared", "writ|initial"}},
      {"local memory",
       ".local .align 4 .b8 __local_depot0[8]; .reg .b64 %SPL; mov.u64 %SPL, __local_depot0; "
       "st.local.u32 [%SPL], %r1; ld.local.u32 %r20, [%SPL+$fault];" +
           kWriteR20,
       "4",
       "0",
       {"own memory", "writ|initial"}},
      {"what was copied from there",
       kTile + "cp.async.ca.shared.global [%r12], [$fault], 4; cp.async.wait_all; ld.shared.u32 %r20, [%r12];",
       "%rd11",
       "%rd10",
       {"writ|initial"}},
  });
}

// Freed memory, and a kernel that traps.
TEST(FaultMemory, OtherEnds) {
  const Source reads{"ld.global.u32 %r20, [%rd2]; st.global.u32 [%rd1], %r20;", 2};
  Buffer<uint32_t> out(1);
  uint64_t address = 0;
  {
    const Buffer<uint32_t> in(1);
    address = in;
    expect_runs(reads, blocks_of(1), {out, in});
  }
  expect_finding(reads, blocks_of(1), {out, address}, {"read"});
  expect_fault({"trap", "setp.gt.u32 %p1, %r1, $fault; @%p1 trap;", "62", "63", {"trap"}});
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
