// SPDX-License-Identifier: Apache-2.0
// The counts of launches, for kernels with known instructions, sectors and conflicts.
#include "paper_gpu/ptx/counts.h"

#include "paper_gpu/ptx/tests/kernel.h"

namespace gradmill::paper::ptx::test {
namespace {

Counts counts_of(const Source& source, const Launch& launch, const std::vector<uint64_t>& params,
                 RunOptions options = {}) {
  Counts counts;
  options.counts = true;
  for (const uint64_t param : params) counts.extents.push_back({.base = param});
  Module module(text_of(source));
  EXPECT_EQ(run(module.kernel("test"), launch, std::as_bytes(std::span(params)), options, &counts), "") << source.body;
  return counts;
}
uint64_t of(const Counts& counts, Unit unit) { return counts.issued.by_unit[static_cast<size_t>(unit)]; }

// Each of 32 lanes reads or writes a word, `step` bytes from its neighbour's.
Counts with_step(const std::string& access, uint64_t step) {
  const Buffer<float> memory(32 * step / sizeof(float));
  const std::string body = "mul.wide.u32 %rd10, %r1, " + std::to_string(step) +
                           ";\nadd.s64 %rd11, %rd1, %rd10;\nmov.f32 %f1, 0f3F800000;\n" + access + "\n";
  return counts_of({.body = body}, blocks_of(32), {memory});
}

TEST(CountsTest, WordsInARowLieInFourSectors) {
  const Counts counts = with_step("ld.global.f32 %f2, [%rd11];", 4);
  EXPECT_EQ(counts.global_accesses, 1u);
  EXPECT_EQ(counts.global_sectors, 4u);
  EXPECT_EQ(counts.global_bytes_read, 128u);
  EXPECT_EQ(counts.global_bytes_written, 0u);
}

TEST(CountsTest, WordsFarApartTakeASectorEach) {
  const Counts counts = with_step("st.global.f32 [%rd11], %f1;", 64);
  EXPECT_EQ(counts.global_sectors, 32u);
  EXPECT_EQ(counts.global_bytes_written, 128u);
}

TEST(CountsTest, AtomicsTakeSectorsToo) {
  const Counts counts = with_step("red.global.add.f32 [%rd11], %f1;", 8);
  EXPECT_EQ(counts.atomics, 32u);
  EXPECT_EQ(counts.global_sectors, 8u);
}

// Each lane stores a word to shared memory, `step` bytes apart.
Counts stored_with_step(uint32_t step) {
  const Buffer<float> memory(1);
  const std::string body = "mul.lo.u32 %r10, %r1, " + std::to_string(step) +
                           ";\nmov.u32 %r11, space;\nadd.u32 %r12, %r11, %r10;\nst.shared.u32 [%r12], %r1;\n";
  return counts_of({.body = ".shared .align 16 .b8 space[8192];\n" + body}, blocks_of(32), {memory});
}

TEST(CountsTest, BanksThatAreAskedTwiceConflict) {
  for (const auto& [step, cycles] : {std::pair{4u, 1u}, {8u, 2u}, {12u, 1u}, {128u, 32u}}) {
    const Counts counts = stored_with_step(step);
    EXPECT_EQ(counts.shared_accesses, 1u);
    EXPECT_EQ(counts.shared_cycles, cycles) << step;
    EXPECT_EQ(counts.shared_least, 1u);
  }
}

TEST(CountsTest, VectorsTakeACycleForEach128Bytes) {
  const Buffer<float> memory(1);
  const Counts counts = counts_of({.body = R"(
    .shared .align 16 .b8 space[512];
    shl.b32 %r10, %r1, 4;
    mov.u32 %r11, space;
    add.u32 %r12, %r11, %r10;
    st.shared.v4.u32 [%r12], {%r1, %r1, %r1, %r1};)"},
                                  blocks_of(32), {memory});
  EXPECT_EQ(counts.shared_cycles, 4u);
  EXPECT_EQ(counts.shared_least, 4u);
}

TEST(CountsTest, InstructionsByTheirUnits) {
  const Buffer<float> memory(64);
  const Counts counts = counts_of({.body = R"(
    mul.wide.u32 %rd10, %r1, 4;
    add.s64 %rd11, %rd1, %rd10;
    ld.global.f32 %f1, [%rd11];
    fma.rn.f32 %f2, %f1, %f1, %f1;
    ex2.approx.ftz.f32 %f3, %f2;
    cvt.rn.bf16.f32 %rs1, %f3;
    fma.rn.bf16 %rs2, %rs1, %rs1, %rs1;
    shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1;
    bar.sync 0;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 st.global.f32 [%rd11], %f3;)"},
                                  blocks_of(64), {memory});
  constexpr uint64_t kWarps = 2;
  EXPECT_EQ(of(counts, Unit::integer), 3 * kWarps);
  EXPECT_EQ(of(counts, Unit::fp32), kWarps);
  EXPECT_EQ(of(counts, Unit::special), kWarps);
  EXPECT_EQ(of(counts, Unit::convert), kWarps);
  EXPECT_EQ(of(counts, Unit::half), kWarps);
  EXPECT_EQ(of(counts, Unit::exchange), kWarps);
  EXPECT_EQ(of(counts, Unit::sync), kWarps);
  EXPECT_EQ(of(counts, Unit::global), 2 * kWarps);
  EXPECT_EQ(of(counts, Unit::control), kWarps);
  uint64_t all = 0;
  for (const uint64_t unit : counts.issued.by_unit) all += unit;
  EXPECT_EQ(counts.issued.warp_instructions, all);
  // The store is issued for both warps and performed by 16 lanes of one of them.
  EXPECT_EQ(counts.issued.lane_instructions, 32 * all - 48);
}

TEST(CountsTest, AProductIsItsFlops) {
  const Buffer<float> memory(1);
  const Counts counts = counts_of({.body = R"(
    mov.b32 %r10, 0;
    mov.f32 %f1, 0f00000000;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f2, %f3, %f4, %f5}, {%r10, %r10, %r10, %r10}, {%r10, %r10},
        {%f1, %f1, %f1, %f1};)"},
                                  blocks_of(32, 3), {memory});
  EXPECT_EQ(counts.blocks, 3u);
  EXPECT_EQ(of(counts, Unit::matrix), 3u);
  EXPECT_EQ(counts.matrix_flops, 3u * 2 * 16 * 8 * 16);
}

// Warps that wait for a barrier in shared memory poll more or less often, depending on which of them runs first.
TEST(CountsTest, WaitingLoopsCountOnce) {
  const Buffer<float> memory(1);
  const std::string body = R"(
    .shared .align 8 .b64 barrier;
    mov.u32 %r10, barrier;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra made;
    mbarrier.init.shared::cta.b64 [%r10], 1;
    made:
    bar.sync 0;
    setp.ne.u32 %p2, %r1, 32;
    @%p2 bra waits;
    mov.u32 %r11, 0;
    again_and_again:
    add.u32 %r11, %r11, 1;
    setp.lt.u32 %p3, %r11, 100000;
    @%p3 bra again_and_again;
    mbarrier.arrive.shared::cta.b64 _, [%r10];
    waits:
)" + wait_for("%r10", "0");
  const Counts first = counts_of({.body = body}, blocks_of(64), {memory});
  const Counts last = counts_of({.body = body}, blocks_of(64), {memory}, {.order = Order::descending});
  EXPECT_EQ(first.issued.warp_instructions, last.issued.warp_instructions);
  EXPECT_EQ(first.issued.by_unit, last.issued.by_unit);
}

TEST(CountsTest, WhatWasTouchedOfEachPointersMemory) {
  const Buffer<float> from(64), to(64);
  const Counts counts = counts_of({.body = R"(
    mul.wide.u32 %rd10, %r1, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd2, %rd10;
    ld.global.f32 %f1, [%rd11];
    ld.global.f32 %f2, [%rd11];
    st.global.f32 [%rd12+128], %f1;)",
                                   .params = 2},
                                  blocks_of(32), {from, to});
  EXPECT_EQ(counts.extents[0].bytes_read, 256u);
  EXPECT_EQ(counts.extents[0].read_high - counts.extents[0].read_low, 128u);
  EXPECT_EQ(counts.extents[0].bytes_written, 0u);
  EXPECT_EQ(counts.extents[1].bytes_written, 128u);
  EXPECT_EQ(counts.extents[1].written_low, uint64_t{to} + 128);
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
