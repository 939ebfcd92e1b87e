// SPDX-License-Identifier: Apache-2.0
// Exchanges between the lanes of a warp.
#include <algorithm>

#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

const std::vector<Kind> kWord = {Kind::b32};

// The lane that a shuffle reads from, and whether it is in the segment; c contains the segments' mask and the bound.
std::tuple<uint32_t, bool> source_of(const std::string& mode, uint32_t lane, uint32_t b, uint32_t c) {
  const uint32_t distance = b & 31, bound = c & 31, mask = c >> 8 & 31;
  const uint32_t most = (lane & mask) | (bound & ~mask), least = lane & mask;
  auto from = static_cast<int32_t>((least | (distance & ~mask)) & 31);
  if (mode == "up") from = static_cast<int32_t>(lane) - static_cast<int32_t>(distance);
  if (mode == "down") from = static_cast<int32_t>(lane + distance);
  if (mode == "bfly") from = static_cast<int32_t>(lane ^ distance);
  const auto end = static_cast<int32_t>(most);
  const bool is_inside = mode == "up" ? from >= end : from <= end;
  return {is_inside ? static_cast<uint32_t>(from) : lane, is_inside};
}

auto shuffled(const std::string& mode, uint32_t bound) {
  return [=](Lanes lanes, uint32_t lane) {
    const auto [from, is_inside] = source_of(mode, lane, lanes.get<uint32_t>(lane, 1), bound);
    return std::tuple(lanes.get<uint32_t>(from, 0), is_inside);
  };
}

TEST(Warp, Shuffles) {
  for (const std::string mode : {"up", "down", "bfly", "idx"}) {
    for (const uint32_t width : {1u, 2u, 8u, 16u, 32u}) {
      // As __shfl_sync and similar functions compute it from a width.
      const uint32_t bound = (32 - width) << 8 | (mode == "up" ? 0 : 31);
      expect_instruction(warp_operation("shfl.sync." + mode + ".b32 $d|$e, $1, $2, " + std::to_string(bound) + ", -1;",
                                        {Kind::b32, Kind::b32}, shuffled(mode, bound)));
    }
  }
}

TEST(Warp, ShufflesOfFloats) {
  expect_instructions({
      warp_operation("shfl.sync.bfly.b32 $d, $1, 16, 31, -1;", {Kind::f32},
                     [](Lanes lanes, uint32_t lane) { return lanes.get<float>(lane ^ 16, 0); }),
      warp_operation("mov.u32 %r100, 31; mov.u32 %r101, -1; mov.u32 %r102, 3; "
                     "shfl.sync.idx.b32 $d|%p50, $1, %r102, %r100, %r101;",
                     kWord, [](Lanes lanes, uint32_t) { return lanes.get<uint32_t>(3, 0); }),
      warp_operation("mov.b32 %r100, $1; shfl.sync.up.b32 %r101|%p50, %r100, 1, 0, -1; mov.b32 $d, %r101;", {Kind::f32},
                     [](Lanes lanes, uint32_t lane) { return lanes.get<float>(lane == 0 ? 0 : lane - 1, 0); }),
  });
}

// One half of the warp after the other.
TEST(Warp, ShufflesOfHalves) {
  const std::string text = R"(
	setp.lt.u32 %p50, %r1, 16;
	@%p50 bra $L_low;
	shfl.sync.bfly.b32 $d, $1, 3, 31, 0xffff0000;
	bra.uni $L_both;
$L_low:
	shfl.sync.down.b32 $d, $1, 1, 4127, 0x0000ffff;
$L_both:
	bar.warp.sync -1;)";
  expect_instruction(warp_operation(text, kWord, [](Lanes lanes, uint32_t lane) {
    return lanes.get<uint32_t>(lane >= 16 ? lane ^ 3 : std::min(lane + 1, 15u), 0);
  }));
}

template <class F>
auto ballot(F f) {
  return [f](Lanes lanes, uint32_t) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < 32; ++i) bits |= uint32_t{f(lanes, i)} << i;
    return bits;
  };
}
template <class F>
uint32_t ballot_of(Lanes lanes, F f) {
  return ballot(f)(lanes, 0);
}
bool is_set(Lanes lanes, uint32_t lane) { return lanes.get<bool>(lane, 0); }
bool is_rare(Lanes lanes, uint32_t lane) { return lanes.get<uint32_t>(lane, 0) % 64 == 5; }

TEST(Warp, Votes) {
  const std::string rare = "and.b32 %r100, $1, 63; setp.eq.s32 %p50, %r100, 5; ";
  expect_instructions({
      warp_operation("vote.sync.ballot.b32 $d, $1, -1;", {Kind::pred}, ballot(is_set)),
      warp_operation("vote.sync.ballot.b32 $d, !$1, 0xffffffff;", {Kind::pred},
                     [](Lanes lanes, uint32_t) { return ~ballot_of(lanes, is_set); }),
      warp_operation("mov.u32 %r101, -1; vote.sync.any.pred $d, $1, %r101;", {Kind::pred},
                     [](Lanes lanes, uint32_t) { return ballot_of(lanes, is_set) != 0; }),
      warp_operation(rare + "vote.sync.any.pred $d, %p50, -1;", kWord,
                     [](Lanes lanes, uint32_t) { return ballot_of(lanes, is_rare) != 0; }),
      warp_operation(rare + "vote.sync.all.pred $d, !%p50, -1;", kWord,
                     [](Lanes lanes, uint32_t) { return ballot_of(lanes, is_rare) == 0; }),
      warp_operation(rare + "vote.sync.uni.pred $d, %p50, -1;", kWord,
                     [](Lanes lanes, uint32_t) {
                       const uint32_t bits = ballot_of(lanes, is_rare);
                       return bits == 0 || bits == 0xffffffff;
                     }),
      warp_operation("activemask.b32 $d;", kWord, [](Lanes, uint32_t) { return 0xffffffffu; }),
  });
}

// Finds the lanes with the same value. The operand's low bits leave few different values.
template <class T>
auto matches_of(T mask) {
  return [mask](Lanes lanes, uint32_t lane) {
    const auto same = [&](Lanes, uint32_t i) { return (lanes.get<T>(i, 0) & mask) == (lanes.get<T>(lane, 0) & mask); };
    return ballot_of(lanes, same);
  };
}
template <class T>
auto all_match(T mask) {
  return [mask](Lanes lanes, uint32_t lane) {
    const bool all = matches_of(mask)(lanes, lane) == 0xffffffff;
    return std::tuple(all ? 0xffffffffu : 0u, all);
  };
}

TEST(Warp, Matches) {
  expect_instructions({
      warp_operation("and.b32 %r100, $1, 3; match.any.sync.b32 $d, %r100, -1;", kWord, matches_of(3u)),
      warp_operation("match.any.sync.b32 $d, $1, -1;", kWord, matches_of(0xffffffffu)),
      warp_operation("and.b64 %rd90, $1, 5; match.any.sync.b64 $d, %rd90, -1;", {Kind::b64}, matches_of(uint64_t{5})),
      warp_operation("and.b32 %r100, $1, 0x100000; match.all.sync.b32 $d|$e, %r100, -1;", kWord, all_match(0x100000u)),
      warp_operation("and.b64 %rd90, $1, 0; match.all.sync.b64 $d|$e, %rd90, -1;", {Kind::b64}, all_match(uint64_t{0})),
  });
}

template <class T, class F>
auto folded(F f) {
  return [f](Lanes lanes, uint32_t) {
    T result = lanes.get<T>(0, 0);
    for (uint32_t i = 1; i < 32; ++i) result = f(result, lanes.get<T>(i, 0));
    return result;
  };
}

TEST(Warp, Reductions) {
  const auto sum = [](uint32_t a, uint32_t b) { return a + b; };
  const auto least = [](auto a, auto b) { return std::min(a, b); };
  const auto most = [](auto a, auto b) { return std::max(a, b); };
  const auto reduction = [](const std::string& name, auto reference) {
    return warp_operation("redux.sync." + name + " $d, $1, -1;", kWord, reference);
  };
  expect_instructions({
      reduction("add.u32", folded<uint32_t>(sum)),
      reduction("add.s32", folded<uint32_t>(sum)),
      reduction("min.u32", folded<uint32_t>(least)),
      reduction("min.s32", folded<int32_t>(least)),
      reduction("max.u32", folded<uint32_t>(most)),
      reduction("max.s32", folded<int32_t>(most)),
      reduction("and.b32", folded<uint32_t>([](uint32_t a, uint32_t b) { return a & b; })),
      reduction("or.b32", folded<uint32_t>([](uint32_t a, uint32_t b) { return a | b; })),
      reduction("xor.b32", folded<uint32_t>([](uint32_t a, uint32_t b) { return a ^ b; })),
  });
}

TEST(Warp, Election) {
  const Source source{R"(
	elect.sync %r10|%p1, 0xffffffff;
	selp.u32 %r11, 1, 0, %p1;
	mul.wide.u32 %rd10, %r1, 8;
	add.s64 %rd11, %rd1, %rd10;
	st.global.v2.u32 [%rd11], {%r10, %r11};)"};
  Buffer<uint32_t> out(64);
  ASSERT_EQ(run_source(source, blocks_of(32), {out}), "");
  uint32_t num_elected = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[2 * i], out[0]);
    EXPECT_EQ(out[2 * i + 1], i == out[0] ? 1u : 0u);
    num_elected += out[2 * i + 1];
  }
  EXPECT_EQ(num_elected, 1u);
}

TEST(Warp, SpecialRegisters) {
  const Source source{R"(
	mov.u32 %r10, %tid.y; mov.u32 %r11, %tid.z; mov.u32 %r12, %ntid.x; mov.u32 %r13, %ntid.y; mov.u32 %r14, %ntid.z;
	mov.u32 %r15, %ctaid.y; mov.u32 %r16, %ctaid.z; mov.u32 %r17, %nctaid.x; mov.u32 %r18, %nctaid.y;
	mov.u32 %r19, %nctaid.z; mov.u32 %r20, %laneid;
	mov.u32 %r21, %lanemask_eq; mov.u32 %r22, %lanemask_lt; mov.u32 %r23, %lanemask_le; mov.u32 %r24, %lanemask_gt;
	mov.u32 %r25, %lanemask_ge; mov.u32 %r26, %clock; mov.u64 %rd20, %clock64; mov.u32 %r27, %smid;
	mov.u32 %r28, %warpid; mov.u64 %rd21, %globaltimer; mov.u32 %r29, %nsmid; mov.u32 %r30, %dynamic_smem_size;
	mov.u32 %r31, %total_smem_size; mov.u32 %r32, %nwarpid;
	mad.lo.s32 %r40, %r11, %r13, %r10; mad.lo.s32 %r41, %r40, %r12, %r1;
	mad.lo.s32 %r42, %r16, %r18, %r15; mad.lo.s32 %r43, %r42, %r17, %r2;
	mul.lo.s32 %r44, %r12, %r13; mul.lo.s32 %r45, %r44, %r14; mad.lo.s32 %r46, %r43, %r45, %r41;
	mul.wide.u32 %rd10, %r46, 32; add.s64 %rd11, %rd1, %rd10;
	mad.lo.s32 %r47, %r19, 1000, %r45;
	st.global.v4.u32 [%rd11], {%r20, %r21, %r22, %r23};
	st.global.v4.u32 [%rd11+16], {%r24, %r25, %r30, %r47};)"};
  const uint32_t num_threads = 5 * 3 * 4, num_blocks = 2 * 3 * 2;
  Buffer<uint32_t> out(8 * num_threads * num_blocks, false);
  ASSERT_EQ(run_source(source, {{2, 3, 2}, {5, 3, 4}, 48}, {out}), "");
  for (uint32_t i = 0; i < num_threads * num_blocks; ++i) {
    const uint32_t lane = i % num_threads % 32, bit = 1u << lane;
    const std::vector<uint32_t> expected = {lane, bit, bit - 1, 2 * bit - 1, ~(2 * bit - 1), ~(bit - 1), 48, 2060};
    ASSERT_EQ(std::vector<uint32_t>(out.begin() + 8 * i, out.begin() + 8 * i + 8), expected) << "of thread " << i;
  }
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
