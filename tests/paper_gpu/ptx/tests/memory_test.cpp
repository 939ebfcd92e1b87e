// SPDX-License-Identifier: Apache-2.0
// Loads and stores in every space.
#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

// A type with a vector length, as in the names of loads and stores, and its size in bytes.
struct Access {
  std::string type;
  int count = 1;
  int element_bytes() const { return std::stoi(type.substr(1)) / 8; }
  int bytes() const { return count * element_bytes(); }
  std::string name() const { return (count == 1 ? "." : ".v" + std::to_string(count) + ".") + type; }
  std::string prefix() const {
    if (type == "f32") return "%f";
    if (type == "f64") return "%fd";
    return element_bytes() <= 2 ? "%rs" : element_bytes() == 4 ? "%r" : "%rd";
  }
  std::string operand(int first) const {
    const std::string list = registers(prefix(), first, count);
    return count == 1 ? list : "{" + list + "}";
  }
};

std::vector<Access> all_accesses() {
  std::vector<Access> all;
  for (const std::string type :
       {"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}) {
    for (const int count : {1, 2, 4}) {
      if (Access{type, count}.bytes() <= 16) all.push_back({type, count});
    }
  }
  return all;
}

// How a kernel computes a lane's address in a space (%rd50 or %r50), with 16 bytes per lane.
struct Space {
  std::string name, declarations, address, from;
};
const Space kGlobal{".global", "", "add.s64 %rd50, %rd3, %rd12;", "%rd50"};
const Space kShared{".shared", ".shared .align 16 .b8 tile[512];",
                    "mov.u32 %r49, tile; shl.b32 %r48, %r1, 4; add.s32 %r50, %r49, %r48;", "%r50"};
const Space kLocal{".local", ".local .align 16 .b8 __local_depot0[32]; .reg .b64 %SP; .reg .b64 %SPL;",
                   "mov.u64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL; add.u64 %rd50, %SPL, 0;", "%rd50+16"};
const Space kGenericGlobal{"", "", "add.s64 %rd50, %rd103, %rd12;", "%rd50"};
const Space kGenericShared{"", ".shared .align 16 .b8 tile[512];",
                           "mov.u64 %rd49, tile; cvta.shared.u64 %rd48, %rd49; add.s64 %rd50, %rd48, %rd12;", "%rd50"};
const Space kGenericLocal{"", kLocal.declarations,
                          "mov.u64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL; add.u64 %rd50, %SP, 16;", "%rd50"};
// Converted to a generic address and back by cvta.to.
const Space kBackToShared{".shared", ".shared .align 16 .b8 tile[512];",
                          "mov.u64 %rd49, tile; cvta.shared.u64 %rd48, %rd49; add.s64 %rd47, %rd48, %rd12; "
                          "cvta.to.shared.u64 %rd50, %rd47;",
                          "%rd50"};
const Space kBackToLocal{".local", kLocal.declarations,
                         "mov.u64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL; cvta.to.local.u64 %rd50, %SP;",
                         "%rd50"};

Source copy_through(const Space& space, const Access& access, const std::string& store, const std::string& load) {
  const std::string body = R"($declarations
	mul.wide.u32 %rd12, %r1, 16;
	add.s64 %rd10, %rd1, %rd12;
	add.s64 %rd11, %rd2, %rd12;
	$address
	ld.global$type $a, [%rd10];
	st$store$space$type [$at], $a;
	ld$load$space$type $b, [$at];
	st.global$type [%rd11], $b;)";
  return {with(body, {{"$declarations", space.declarations},
                      {"$address", space.address},
                      {"$store", store},
                      {"$load", load},
                      {"$space", space.name},
                      {"$type", access.name()},
                      {"$at", space.from},
                      {"$a", access.operand(30)},
                      {"$b", access.operand(40)}}),
          3};
}

void expect_copies(const Source& source, int bytes) {
  restart_random();
  Buffer<uint8_t> in(512), out(512), between(512, false);
  for (uint8_t& each : in) each = static_cast<uint8_t>(random_bits());
  const std::string wrong = run_source(source, blocks_of(32), {in, out, between});
  ASSERT_EQ(wrong, "") << source.body;
  for (size_t i = 0; i < 512; ++i) {
    const bool is_copied = static_cast<int>(i % 16) < bytes;
    ASSERT_EQ(out[i], is_copied ? in[i] : 0) << "byte " << i << " by" << source.body;
  }
}

TEST(Memory, EverySpaceAndType) {
  for (const Space& space : {kGlobal, kShared, kLocal, kGenericGlobal, kGenericShared, kGenericLocal}) {
    for (const Access& access : all_accesses()) {
      expect_copies(copy_through(space, access, "", ""), access.bytes());
    }
  }
}

TEST(Memory, OtherAddresses) {
  for (const Space& space : {kBackToShared, kBackToLocal}) {
    for (const Access& access : {Access{"u32", 1}, Access{"f32", 4}}) {
      expect_copies(copy_through(space, access, "", ""), access.bytes());
    }
  }
}

TEST(Memory, Qualifiers) {
  const Access word{"u32", 1}, pair{"u64", 1};
  for (const std::string each :
       {".volatile", ".weak", ".relaxed.cta", ".relaxed.gpu", ".relaxed.sys", ".relaxed.cluster"}) {
    expect_copies(copy_through(kGlobal, word, each, each), 4);
    expect_copies(copy_through(kShared, word, each, each), 4);
    expect_copies(copy_through(kGenericShared, pair, each, each), 8);
  }
  for (const std::string scope : {".cta", ".cluster", ".gpu", ".sys"}) {
    expect_copies(copy_through(kGlobal, word, ".release" + scope, ".acquire" + scope), 4);
    expect_copies(copy_through(kShared, pair, ".release" + scope, ".acquire" + scope), 8);
  }
}

// The text after the space: for the store to the intermediate memory, for the load from it, and for the first load, of
// memory that the kernel does not write.
Source copy_with_operators(const Access& access, const std::string& store, const std::string& load,
                           const std::string& first_load) {
  Source source = copy_through(kGlobal, access, "", "");
  const std::string type = access.name(), between = "[" + kGlobal.from + "]";
  const std::string stored = type + " " + between, loaded = type + " " + access.operand(40);
  source.body = with(source.body, {{"st.global" + stored, "st.global" + store + stored},
                                   {"ld.global" + loaded, "ld.global" + load + loaded},
                                   {"ld.global" + type + " " + access.operand(30),
                                    "ld.global" + first_load + type + " " + access.operand(30)}});
  return source;
}

TEST(Memory, CacheOperators) {
  const std::tuple<std::string, std::string, std::string> operators[] = {
      {".cg", ".cg", ".nc"},          {".cs", ".cs", ".cs"},          {".wb", ".ca", ".nc.L1::no_allocate"},
      {".wt", ".cv", ".nc.L2::128B"}, {"", ".lu", ".L1::evict_last"}, {"", "", ".L2::256B"}};
  for (const auto& [store, load, first_load] : operators) {
    for (const Access& access : all_accesses()) {
      const Source source = copy_with_operators(access, store, load, first_load);
      EXPECT_NE(source.body.find("ld.global" + first_load + access.name()), std::string::npos);
      expect_copies(source, access.bytes());
    }
  }
}

// Operands are at %rd11, results at %rd13.
TEST(Memory, Extensions) {
  expect_instructions({
      operation("ld.global.s8 $d, [%rd11];", [](uint32_t a) { return int16_t{int8_t(a)}; }),
      operation("ld.global.s8 $d, [%rd11];", [](uint32_t a) { return int32_t{int8_t(a)}; }),
      operation("ld.global.s8 $d, [%rd11+1];", [](uint32_t a) { return int64_t{int8_t(a >> 8)}; }),
      operation("ld.global.u8 $d, [%rd11];", [](uint32_t a) { return uint32_t{uint8_t(a)}; }),
      operation("ld.global.u8 $d, [%rd11+3];", [](uint32_t a) { return uint64_t{a >> 24}; }),
      operation("ld.global.b8 $d, [%rd11];", [](uint32_t a) { return uint32_t{uint8_t(a)}; }),
      operation("ld.global.s16 $d, [%rd11];", [](uint32_t a) { return int32_t{int16_t(a)}; }),
      operation("ld.global.s16 $d, [%rd11+2];", [](uint32_t a) { return int64_t{int16_t(a >> 16)}; }),
      operation("ld.global.u16 $d, [%rd11+2];", [](uint32_t a) { return a >> 16; }),
      operation("ld.global.s32 $d, [%rd11];", [](uint32_t a) { return int64_t{int32_t(a)}; }),
      operation("ld.global.u32 $d, [%rd11];", [](uint32_t a) { return uint64_t{a}; }),
      operation("ld.global.b32 $d, [%rd11];", [](uint32_t a) { return uint64_t{a}; }),
      operation("ld.global.v2.s8 {$d, $e}, [%rd11];",
                [](uint32_t a) { return std::tuple(int32_t{int8_t(a)}, int32_t{int8_t(a >> 8)}); }),
      operation("ld.global.v4.u8 {$d, $e, $f, $g}, [%rd11];",
                [](uint32_t a) {
                  return std::tuple(uint16_t(a & 0xff), uint16_t(a >> 8 & 0xff), uint16_t(a >> 16 & 0xff),
                                    uint16_t(a >> 24));
                }),
      operation("mov.u32 $d, 0; st.global.u32 [%rd13], $d; st.global.u8 [%rd13+1], $1; ld.global.u32 $d, [%rd13];",
                [](uint32_t a) { return (a & 0xff) << 8; }),
      operation("mov.u32 $d, 0; st.global.u32 [%rd13], $d; st.global.b16 [%rd13+2], $1; ld.global.u32 $d, [%rd13];",
                [](uint64_t a) { return uint32_t(a) << 16; }),
      operation("add.s64 %rd20, %rd11, 64; ld.global.u64 $d, [%rd20+-64];", [](uint64_t a) { return a; }),
      operation("mov.u32 $d, 7; setp.lt.s32 %p60, $1, 0; @%p60 ld.global.u32 $d, [%rd11];",
                [](int32_t a) { return a < 0 ? a : 7; }),
      operation("mov.u32 $d, 7; setp.lt.s32 %p60, $1, 0; @!%p60 ld.global.u32 $d, [%rd11];",
                [](int32_t a) { return a < 0 ? 7 : a; }),
  });
}

TEST(Memory, Parameters) {
  const std::string text =
      with(text_of({R"(
	ld.param.u32 %r10, [test_param_2];
	ld.param.f32 %f10, [test_param_3];
	ld.param.s8 %rs10, [test_param_4];
	ld.param.v2.u32 {%r11, %r12}, [test_param_5];
	ld.param.u64 %rd10, [test_param_5+8];
	ld.param.v4.u8 {%rs11, %rs12, %rs13, %rs14}, [test_param_5+16];
	mov.b64 %rd11, test_param_5;
	cvta.param.u64 %rd12, %rd11;
	ld.u64 %rd13, [%rd12+8];
	st.global.u32 [%rd1], %r10;
	st.global.f32 [%rd1+4], %f10;
	cvt.s32.s16 %r13, %rs10;
	st.global.u32 [%rd1+8], %r13;
	st.global.v2.u32 [%rd1+16], {%r11, %r12};
	st.global.u64 [%rd1+24], %rd10;
	st.global.v4.u8 [%rd1+32], {%rs11, %rs12, %rs13, %rs14};
	st.global.u64 [%rd1+40], %rd13;)",
                    2}),
           {{".param .u64 test_param_1\n",
             ".param .u64 test_param_1,\n\t.param .u32 test_param_2,\n\t.param .f32 test_param_3,\n"
             "\t.param .u8 test_param_4,\n\t.param .align 8 .b8 test_param_5[24]\n"}});
  Buffer<uint64_t> out(6);
  struct {
    uint64_t first, second;
    uint32_t number = 0x80000001;
    float real = -1.5f;
    int8_t small = -3;
    alignas(8) uint32_t low = 11;
    uint32_t high = 12;
    uint64_t wide = 0x123456789abcdef0;
    uint8_t bytes[8] = {1, 2, 253, 254};
  } params{out, out};
  ASSERT_EQ(run_text(text, blocks_of(1), std::as_bytes(std::span(&params, 1))), "");
  EXPECT_EQ(out[0], uint64_t{std::bit_cast<uint32_t>(-1.5f)} << 32 | 0x80000001);
  EXPECT_EQ(out[1], 0xfffffffd);
  EXPECT_EQ(out[2], uint64_t{12} << 32 | 11);
  EXPECT_EQ(out[3], 0x123456789abcdef0);
  EXPECT_EQ(out[4], 0xfefd0201);
  EXPECT_EQ(out[5], 0x123456789abcdef0);
}

TEST(Memory, ParametersOfEveryType) {
  for (const Access& access : all_accesses()) {
    const std::string body = with("ld.param$type $a, [test_param_1+16]; st.global$type [%rd1], $a;",
                                  {{"$type", access.name()}, {"$a", access.operand(30)}});
    const std::string text = with(text_of({body, 1}), {{".param .u64 test_param_0\n",
                                                        ".param .u64 test_param_0,\n"
                                                        "\t.param .align 16 .b8 test_param_1[32]\n"}});
    Buffer<uint64_t> out(2);
    struct {
      uint64_t out, unused = 0;
      uint64_t bytes[4] = {1, 2, 0x8192a3b4c5d6e7f8, 0x0123456789abcdef};
    } params{out};
    ASSERT_EQ(run_text(text, blocks_of(1), std::as_bytes(std::span(&params, 1))), "") << body;
    uint64_t expected[2] = {};
    std::memcpy(expected, &params.bytes[2], static_cast<size_t>(access.bytes()));
    EXPECT_EQ(std::vector<uint64_t>(out.begin(), out.end()), std::vector<uint64_t>(expected, expected + 2)) << body;
  }
}

TEST(Memory, Variables) {
  const Source source{R"(
	mul.wide.u32 %rd10, %r1, 4;
	mov.u64 %rd11, table;
	add.s64 %rd12, %rd11, %rd10;
	ld.const.f32 %f10, [%rd12];
	mov.u64 %rd13, words;
	add.s64 %rd14, %rd13, %rd10;
	ld.global.u32 %r10, [%rd14];
	ld.global.u16 %rs10, [small+2];
	cvt.u32.u16 %r11, %rs10;
	ld.global.f64 %fd10, [real];
	cvt.rn.f32.f64 %f11, %fd10;
	cvta.global.u64 %rd15, %rd14;
	ld.u32 %r12, [%rd15];
	cvta.const.u64 %rd16, %rd12;
	ld.f32 %f12, [%rd16];
	mul.wide.u32 %rd17, %r1, 24;
	add.s64 %rd18, %rd1, %rd17;
	st.global.f32 [%rd18], %f10;
	st.global.u32 [%rd18+4], %r10;
	st.global.u32 [%rd18+8], %r11;
	st.global.f32 [%rd18+12], %f11;
	st.global.u32 [%rd18+16], %r12;
	st.global.f32 [%rd18+20], %f12;)",
                      1, R"(.const .align 4 .b8 table[16] = {0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64};
.global .align 4 .u32 words[4] = {10, 20, 30, 4294967295};
.global .align 2 .b8 small[4] = {1, 0, 2, 1};
.visible .global .align 8 .f64 real = 0d3FE0000000000000;
)"};
  Buffer<uint32_t> out(24);
  ASSERT_EQ(run_source(source, blocks_of(4), {out}), "");
  const uint32_t words[] = {10, 20, 30, 0xffffffff};
  for (size_t i = 0; i < 4; ++i) {
    const auto number = std::bit_cast<uint32_t>(static_cast<float>(i + 1));
    const std::vector<uint32_t> expected = {number, words[i], 0x102, std::bit_cast<uint32_t>(0.5f), words[i], number};
    EXPECT_EQ(std::vector<uint32_t>(out.begin() + 6 * i, out.begin() + 6 * i + 6), expected);
  }
}

// Dynamic shared memory begins after what the kernel declares.
TEST(Memory, DynamicShared) {
  const Source source{R"(
	.shared .align 4 .b8 fixed[64];
	mov.u32 %r10, dynamic;
	shl.b32 %r11, %r1, 3;
	add.s32 %r12, %r10, %r11;
	cvt.u64.u32 %rd10, %r1;
	st.shared.u64 [%r12], %rd10;
	mov.u32 %r13, fixed;
	setp.lt.u32 %p1, %r1, 16;
	shl.b32 %r14, %r1, 2;
	add.s32 %r15, %r13, %r14;
	@%p1 st.shared.u32 [%r15], %r1;
	bar.sync 0;
	xor.b32 %r16, %r11, 504;
	add.s32 %r17, %r10, %r16;
	ld.shared.u64 %rd11, [%r17];
	mul.wide.u32 %rd12, %r1, 8;
	add.s64 %rd13, %rd1, %rd12;
	st.global.u64 [%rd13], %rd11;)",
                      1, ".extern .shared .align 16 .b8 dynamic[];\n"};
  Buffer<uint64_t> out(64);
  ASSERT_EQ(run_source(source, blocks_of(64, 1, 512), {out}), "");
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], 63 - i);
}

TEST(Memory, SpaceOfGenericAddresses) {
  const Source source{R"(
	.shared .align 4 .b8 tile[4];
	.local .align 4 .b8 __local_depot0[4];
	mov.u64 %rd10, tile;
	cvta.shared.u64 %rd11, %rd10;
	mov.u64 %rd12, __local_depot0;
	cvta.local.u64 %rd13, %rd12;
	isspacep.shared %p1, %rd11;
	isspacep.shared %p2, %rd101;
	isspacep.global %p3, %rd101;
	isspacep.local %p4, %rd13;
	isspacep.global %p5, %rd11;
	selp.u32 %r10, 1, 0, %p1;
	selp.u32 %r11, 1, 0, %p2;
	selp.u32 %r12, 1, 0, %p3;
	selp.u32 %r13, 1, 0, %p4;
	selp.u32 %r14, 1, 0, %p5;
	st.global.v4.u32 [%rd1], {%r10, %r11, %r12, %r13};
	st.global.u32 [%rd1+16], %r14;)"};
  Buffer<uint32_t> out(8);
  ASSERT_EQ(run_source(source, blocks_of(1), {out}), "");
  EXPECT_EQ(std::vector<uint32_t>(out.begin(), out.begin() + 5), (std::vector<uint32_t>{1, 0, 1, 1, 0}));
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
