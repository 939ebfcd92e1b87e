// SPDX-License-Identifier: Apache-2.0
// Products of a warpgroup's matrices (wgmma), whose operands are in shared memory.
#include "paper_gpu/ptx/tests/matrix.h"

namespace gradmill::paper::ptx::test {
namespace {

constexpr size_t kM = 64, kThreads = 128, kAt = 16384, kShared = 49152;  // A is at 0, B at kAt

// The layout of an operand in shared memory. Rows are those of A and the columns of B. By k: the next k follows in
// memory. Core matrices are 8 rows (or 8 k) of 16 bytes, or of as many as the swizzle has.
struct Layout {
  uint64_t swizzle = 128;  // in bytes; 0: none
  bool by_k = true;
  uint64_t leading = 16, stride = 1024;  // in bytes, as in the descriptor
  uint64_t step = 0;                     // steps of 32 bytes along k by which the start is advanced

  uint64_t offset(uint64_t row, uint64_t k, uint64_t bytes) const {
    uint64_t at = 0;
    if (by_k) {
      const uint64_t along = k * bytes + 32 * step;
      at = swizzle == 0 ? row % 8 * 16 + row / 8 * stride + along % 16 + along / 16 * leading
                        : row % 8 * swizzle + row / 8 * stride + along;
    } else if (swizzle == 0) {
      at = row % 8 * bytes + k % 8 * 16 + row / 8 * stride + k / 8 * leading;
    } else {
      const uint64_t wide = swizzle / bytes;
      at = row % wide * bytes + k % 8 * swizzle + row / wide * leading + k / 8 * stride;
    }
    return swizzle == 0 ? at : at ^ ((at >> 7 & (swizzle / 16 - 1)) << 4);
  }
  // Without the address of shared memory itself.
  uint64_t descriptor(uint64_t start) const {
    const uint64_t mode = swizzle == 0 ? 0 : swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    return (start + 32 * step) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62;
  }
};

struct Product {
  size_t n, k;
  Element a, b;
  Layout a_layout = {}, b_layout = {};
  bool a_in_registers = false;
  bool adds = true;
  int a_sign = 1, b_sign = 1;

  std::string instruction() const {
    const std::string n_by_k = "m64n" + std::to_string(n) + "k" + std::to_string(k);
    const auto major = [](const Layout& layout) { return std::string(layout.by_k ? ", 0" : ", 1"); };
    std::string text = "wgmma.mma_async.sync.aligned." + n_by_k + ".f32." + a.name + "." + b.name + " {" +
                       registers("%f", 1, static_cast<int>(n / 2)) + "}, " +
                       (a_in_registers ? "{%r30, %r31, %r32, %r33}" : "%rd30") + ", %rd31, %p1, " +
                       std::to_string(a_sign) + ", " + std::to_string(b_sign);
    if (a.bits == 16 && !a_in_registers) text += major(a_layout);
    if (a.bits == 16) text += major(b_layout);
    return text + ";";
  }
};

// Loads shared memory from %rd1; %r10 is its address. Loads accumulators %f1, %f2, ... from %rd2, and A from %rd3.
std::string prologue(const Product& product) {
  std::string body = R"(
	mov.u32 %r10, dynamic;
	shl.b32 %r11, %r1, 4;
$L_copy:
	cvt.u64.u32 %rd10, %r11;
	add.s64 %rd11, %rd1, %rd10;
	ld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%rd11];
	add.s32 %r16, %r10, %r11;
	st.shared.v4.u32 [%r16], {%r12, %r13, %r14, %r15};
	add.s32 %r11, %r11, 2048;
	setp.lt.u32 %p2, %r11, 49152;
	@%p2 bra $L_copy;
	fence.proxy.async.shared::cta;
	bar.sync 0;
	cvt.u64.u32 %rd12, %r10;
	shr.u64 %rd13, %rd12, 4;
	and.b64 %rd14, %rd13, 16383;
	add.s64 %rd30, %rd14, $a;
	add.s64 %rd31, %rd14, $b;
	mul.wide.u32 %rd15, %r1, $pitch;
	add.s64 %rd16, %rd2, %rd15;
	mul.wide.u32 %rd17, %r1, 16;
	add.s64 %rd18, %rd3, %rd17;
	ld.global.v4.u32 {%r30, %r31, %r32, %r33}, [%rd18];
	mov.u32 %r40, $adds;
	setp.ne.b32 %p1, %r40, 0;
)";
  for (size_t i = 0; i < product.n / 2; i += 4) {
    body += "\tld.global.v4.f32 {" + registers("%f", static_cast<int>(i + 1), 4) + "}, [%rd16+" +
            std::to_string(4 * i) + "];\n";
  }
  return with(body, {{"$adds", product.adds ? "1" : "0"},
                     {"$a", std::to_string(static_cast<int64_t>(product.a_layout.descriptor(0)))},
                     {"$b", std::to_string(static_cast<int64_t>(product.b_layout.descriptor(kAt)))},
                     {"$pitch", std::to_string(2 * product.n)}});
}

std::string epilogue(const Product& product) {
  std::string body = "\tadd.s64 %rd19, %rd4, %rd15;\n";
  for (size_t i = 0; i < product.n / 2; i += 4) {
    body += "\tst.global.v4.f32 [%rd19+" + std::to_string(4 * i) + "], {" +
            registers("%f", static_cast<int>(i + 1), 4) + "};\n";
  }
  return body;
}

const std::string kOnce =
    "wgmma.fence.sync.aligned;\n$product\nwgmma.commit_group.sync.aligned;\n"
    "wgmma.wait_group.sync.aligned 0;\n";

Source kernel_of(const Product& product, const std::string& middle = kOnce) {
  return {prologue(product) + with(middle, {{"$product", product.instruction()}}) + epilogue(product), 4,
          ".extern .shared .align 1024 .b8 dynamic[];\n"};
}

void put(std::vector<uint8_t>& image, size_t start, const Layout& layout, const Element& element, const Matrix& matrix,
         bool is_a) {
  const auto bytes = static_cast<size_t>(element.bits / 8);
  for (size_t row = 0; row < (is_a ? matrix.rows : matrix.columns); ++row) {
    for (size_t k = 0; k < (is_a ? matrix.columns : matrix.rows); ++k) {
      const uint32_t bits = element.encoded(is_a ? matrix(row, k) : matrix(k, row));
      std::memcpy(&image.at(start + layout.offset(row, k, bytes)), &bits, bytes);
    }
  }
}

struct Operands {
  Matrix a, b, c;
};
Operands small_operands(const Product& product) {
  return {small_matrix(kM, product.k), small_matrix(product.k, product.n), small_matrix(kM, product.n)};
}

// The accumulators of four warps, as stored in memory.
template <class F>
void for_each_value(size_t n, F f) {
  for (size_t thread = 0; thread < kThreads; ++thread) {
    for (size_t i = 0; i < n / 2; ++i) {
      const At at = place_in_c(thread % 32, i);
      f(thread * (n / 2) + i, At{at.row + thread / 32 * 16, at.column});
    }
  }
}

void expect_product(const Product& product, const Operands& operands, double step, const std::string& middle = kOnce,
                    int times = 1, const RunOptions& options = {}) {
  std::vector<uint8_t> bytes(kShared);
  for (uint8_t& each : bytes) each = static_cast<uint8_t>(random_bits());
  if (!product.a_in_registers) put(bytes, 0, product.a_layout, product.a, operands.a, true);
  put(bytes, kAt, product.b_layout, product.b, operands.b, false);
  std::vector<uint32_t> in_registers;
  for (size_t warp = 0; warp < 4; ++warp) {
    Matrix part{16, product.k};
    for (size_t i = 0; i < part.values.size(); ++i) part.values[i] = operands.a.values[warp * part.values.size() + i];
    const auto words = fragments(part, 4, product.a, place_in_a);
    in_registers.insert(in_registers.end(), words.begin(), words.end());
  }
  const Buffer<uint8_t> image(bytes);
  const Buffer<uint32_t> a(in_registers);
  Buffer<float> c(kM * product.n), d(kM * product.n, false);
  for_each_value(product.n, [&](size_t i, At at) { c[i] = as<float>(operands.c(at.row, at.column)); });
  const std::string wrong =
      run_source(kernel_of(product, middle), blocks_of(kThreads, 1, kShared), {image, c, a, d}, options);
  ASSERT_EQ(wrong, "") << product.instruction();
  const int failures = num_failures();
  for_each_value(product.n, [&](size_t i, At at) {
    if (num_failures() != failures) return;
    const Sum sum = dot(operands.a, operands.b, 0, at.row, at.column);
    const double start = product.adds ? operands.c(at.row, at.column) : 0;
    const double expected = start + product.a_sign * product.b_sign * times * sum.value;
    EXPECT_NEAR(value(d[i]), expected, step * (sum.magnitude + std::abs(start)))
        << product.instruction() << " in row " << at.row << ", column " << at.column;
  });
}

void expect_exactly(const Product& product) {
  restart_random();
  expect_product(product, small_operands(product), 0);
}
void expect_nearly(const Product& product, const Format& a, const Format& b) {
  restart_random();
  const Operands operands{random_matrix(kM, product.k, a), random_matrix(product.k, product.n, b),
                          random_matrix(kM, product.n, kF32)};
  expect_product(product, operands, 0x1p-21 * product.a.looseness);
}

TEST(Wgmma, Sizes) {
  for (const size_t n : {8u, 16u, 64u, 96u, 128u, 192u, 256u}) {
    for (const Element& type : {kOfF16, kOfBf16}) {
      expect_exactly({n, 16, type, type});
      expect_exactly({n, 16, type, type, {}, {}, true});
    }
  }
}

TEST(Wgmma, Types) {
  expect_nearly({64, 16, kOfF16, kOfF16}, kF16, kF16);
  expect_nearly({64, 16, kOfBf16, kOfBf16, {}, {}, true}, kBf16, kBf16);
  for (const bool in_registers : {false, true}) {
    expect_exactly({64, 8, kOfTf32, kOfTf32, {}, {}, in_registers});
    expect_nearly({128, 8, kOfTf32, kOfTf32, {}, {}, in_registers}, kTf32, kTf32);
    for (const auto& [a, a_format] : {std::pair{kOfE4m3, kE4m3}, {kOfE5m2, kE5m2}}) {
      for (const auto& [b, b_format] : {std::pair{kOfE4m3, kE4m3}, {kOfE5m2, kE5m2}}) {
        expect_exactly({128, 32, a, b, {}, {}, in_registers});
        expect_nearly({64, 32, a, b, {}, {}, in_registers}, a_format, b_format);
      }
    }
  }
}

const std::vector<Layout> kByK = {{0, true, 128, 256},   {0, true, 4096, 128},     {32, true, 16, 256},
                                  {32, true, 16, 512},   {64, true, 16, 512},      {64, true, 16, 512, 1},
                                  {128, true, 16, 1024}, {128, true, 16, 1024, 1}, {128, true, 16, 1024, 3}};
const std::vector<Layout> kByRow = {{0, false, 128, 256},     {0, false, 4096, 128},   {32, false, 512, 256},
                                    {32, false, 256, 8192},   {64, false, 1024, 512},  {64, false, 512, 8192},
                                    {128, false, 2048, 1024}, {128, false, 1024, 8192}};

// Each layout on one side, with the usual one on the other.
TEST(Wgmma, Layouts) {
  for (const auto& layouts : {kByK, kByRow}) {
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(testing::Message() << "swizzle " << layout.swizzle << ", offsets " << layout.leading << " and "
                                      << layout.stride << ", step " << layout.step);
      expect_exactly({64, 16, kOfF16, kOfF16, layout, {}});
      expect_exactly({128, 16, kOfBf16, kOfBf16, {}, layout});
      expect_exactly({192, 16, kOfBf16, kOfBf16, layout, layout});
      expect_exactly({64, 16, kOfF16, kOfF16, {}, layout, true});
    }
  }
}

TEST(Wgmma, LayoutsOfOtherTypes) {
  for (const Layout& layout : kByK) {
    expect_exactly({64, 8, kOfTf32, kOfTf32, layout, layout});
    expect_exactly({64, 32, kOfE4m3, kOfE4m3, layout, layout});
  }
}

TEST(Wgmma, Signs) {
  for (const bool adds : {false, true}) {
    for (const int a_sign : {1, -1}) {
      for (const int b_sign : {1, -1}) {
        expect_exactly({64, 16, kOfF16, kOfF16, {}, {}, false, adds, a_sign, b_sign});
        expect_exactly({8, 16, kOfBf16, kOfBf16, {}, {}, true, adds, a_sign, b_sign});
        expect_exactly({64, 8, kOfTf32, kOfTf32, {}, {}, false, adds, a_sign, b_sign});
      }
    }
  }
}

// Several products per batch and several batches, all with the same accumulators.
TEST(Wgmma, Batches) {
  const std::string commit = "wgmma.commit_group.sync.aligned;\n", fence = "wgmma.fence.sync.aligned;\n";
  const Product product{64, 16, kOfF16, kOfF16};
  const Operands operands = small_operands(product);
  expect_product(product, operands, 0,
                 fence + "$product\n$product\n$product\n" + commit + "wgmma.wait_group.sync.aligned 0;\n", 3);
  expect_product(product, operands, 0,
                 fence + "$product\n" + commit + "$product\n" + commit +
                     "wgmma.wait_group.sync.aligned 1;\nwgmma.wait_group.sync.aligned 0;\n",
                 2);
  expect_product(product, operands, 0, kOnce + kOnce, 2);
}

// The first product overwrites and the others add to it, whenever they are performed.
TEST(Wgmma, AreDoneInTheirOrder) {
  Product product{64, 16, kOfF16, kOfF16};
  product.adds = false;
  const std::string next = with("$product", {{"$product", product.instruction()}, {"%p1", "%p2"}});
  const std::string commit = "wgmma.commit_group.sync.aligned;\n";
  const std::string middle = "setp.eq.u32 %p2, %r1, %r1;\nwgmma.fence.sync.aligned;\n$product\n" + next + "\n" +
                             commit + next + "\n" + commit + "wgmma.wait_group.sync.aligned 0;\n";
  for (uint32_t seed = 0; seed < 8; ++seed) {
    restart_random();
    expect_product(product, small_operands(product), 0, middle, 3, {.arrival = Arrival::shuffled, .seed = seed});
  }
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
