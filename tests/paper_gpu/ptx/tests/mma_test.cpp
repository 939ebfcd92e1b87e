// SPDX-License-Identifier: Apache-2.0
// Products of a warp's matrices (mma.sync).
#include "paper_gpu/ptx/tests/matrix.h"

namespace gradmill::paper::ptx::test {
namespace {

constexpr size_t kM = 16, kN = 8;

struct Product {
  size_t k;
  Element a, b;
  std::string type = "f32";  // of C and D
  size_t a_registers() const { return kM * k * static_cast<size_t>(a.bits) / 1024; }
  size_t b_registers() const { return kN * k * static_cast<size_t>(b.bits) / 1024; }
  size_t c_registers() const { return type == "f16" ? 2 : 4; }
  std::string name() const {
    return "mma.sync.aligned.m16n8k" + std::to_string(k) + ".row.col." + type + "." + a.name + "." + b.name + "." +
           type;
  }
};

std::string braced(const std::string& prefix, int first, size_t count) {
  return "{" + registers(prefix, first, static_cast<int>(count)) + "}";
}

// Lanes read their fragments one after the other.
std::string load(const std::string& from, const std::string& prefix, int first, size_t count) {
  std::string text =
      "\tmul.wide.u32 %rd10, %r1, " + std::to_string(4 * count) + ";\n\tadd.s64 %rd11, " + from + ", %rd10;\n";
  for (size_t i = 0; i < count; ++i) {
    text += "\tld.global." + std::string(prefix == "%f" ? "f32 " : "u32 ") + prefix +
            std::to_string(static_cast<size_t>(first) + i) + ", [%rd11+" + std::to_string(4 * i) + "];\n";
  }
  return text;
}

Source kernel_of(const Product& product, bool in_place) {
  const std::string c = product.type == "f32" ? "%f" : "%r";
  const int d_first = in_place ? 30 : 40;
  std::string body = load("%rd1", "%r", 10, product.a_registers()) + load("%rd2", "%r", 20, product.b_registers()) +
                     load("%rd3", c, 30, product.c_registers());
  body += "\t" + product.name() + " " + braced(c, d_first, product.c_registers()) + ", " +
          braced("%r", 10, product.a_registers()) + ", " + braced("%r", 20, product.b_registers()) + ", " +
          braced(c, 30, product.c_registers()) + ";\n";
  body +=
      "\tmul.wide.u32 %rd10, %r1, " + std::to_string(4 * product.c_registers()) + ";\n\tadd.s64 %rd11, %rd4, %rd10;\n";
  for (size_t i = 0; i < product.c_registers(); ++i) {
    body += "\tst.global." + std::string(c == "%f" ? "f32" : "u32") + " [%rd11+" + std::to_string(4 * i) + "], " + c +
            std::to_string(static_cast<size_t>(d_first) + i) + ";\n";
  }
  return {body, 4};
}

std::vector<uint32_t> fragments_of_c(const Product& product, const Matrix& c) {
  std::vector<uint32_t> words(32 * product.c_registers());
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t i = 0; i < 4; ++i) {
      const At at = place_in_c(lane, i);
      if (product.type == "f16") {
        words[lane * 2 + i / 2] |= kOfF16.encoded(c(at.row, at.column)) << (16 * (i % 2));
      } else {
        words[lane * 4 + i] = std::bit_cast<uint32_t>(as<float>(c(at.row, at.column)));
      }
    }
  }
  return words;
}

void expect_product(const Product& product, const Matrix& a, const Matrix& b, const Matrix& c, bool is_exact) {
  const Buffer<uint32_t> a_words(fragments(a, product.a_registers(), product.a, place_in_a));
  const Buffer<uint32_t> b_words(fragments(b, product.b_registers(), product.b, place_in_b));
  const Buffer<uint32_t> c_words(fragments_of_c(product, c));
  Buffer<uint32_t> d(32 * product.c_registers(), false);
  const double step = (product.type == "f16" ? 0x1p-10 : 0x1p-21 * product.a.looseness);
  for (const bool in_place : {false, true}) {
    const std::string wrong = run_source(kernel_of(product, in_place), blocks_of(32), {a_words, b_words, c_words, d});
    ASSERT_EQ(wrong, "") << product.name();
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t i = 0; i < 4; ++i) {
        const At at = place_in_c(lane, i);
        const Sum expected = dot(a, b, c(at.row, at.column), at.row, at.column);
        const double got = product.type == "f16" ? decode(d[lane * 2 + i / 2] >> (16 * (i % 2)) & 0xffff, 5, 10)
                                                 : value(std::bit_cast<float>(d[lane * 4 + i]));
        ASSERT_NEAR(got, expected.value, is_exact ? 0 : expected.magnitude * step)
            << product.name() << " in row " << at.row << ", column " << at.column;
      }
    }
  }
}

void expect_products(const Product& product, const Format& a_format, const Format& b_format) {
  restart_random();
  const int failures = num_failures();
  for (int turn = 0; turn < 4; ++turn) {
    expect_product(product, small_matrix(kM, product.k), small_matrix(product.k, kN), small_matrix(kM, kN), true);
    const Format& c_format = product.type == "f16" ? kF16 : kF32;
    expect_product(product, random_matrix(kM, product.k, a_format), random_matrix(product.k, kN, b_format),
                   random_matrix(kM, kN, c_format), false);
    if (num_failures() != failures) return;
  }
}

TEST(Mma, F16) {
  expect_products({16, kOfF16, kOfF16}, kF16, kF16);
  expect_products({8, kOfF16, kOfF16}, kF16, kF16);
}
TEST(Mma, F16ToF16) {
  expect_products({16, kOfF16, kOfF16, "f16"}, kF16, kF16);
  expect_products({8, kOfF16, kOfF16, "f16"}, kF16, kF16);
}
TEST(Mma, Bf16) {
  expect_products({16, kOfBf16, kOfBf16}, kBf16, kBf16);
  expect_products({8, kOfBf16, kOfBf16}, kBf16, kBf16);
}
TEST(Mma, Tf32) {
  expect_products({8, kOfTf32, kOfTf32}, kTf32, kTf32);
  expect_products({4, kOfTf32, kOfTf32}, kTf32, kTf32);
}
TEST(Mma, Fp8) {
  expect_products({32, kOfE4m3, kOfE4m3}, kE4m3, kE4m3);
  expect_products({32, kOfE4m3, kOfE5m2}, kE4m3, kE5m2);
  expect_products({32, kOfE5m2, kOfE4m3}, kE5m2, kE4m3);
  expect_products({32, kOfE5m2, kOfE5m2}, kE5m2, kE5m2);
}

// Infinities and NaN end up in the right elements.
TEST(Mma, NotFinite) {
  const Product product{16, kOfBf16, kOfBf16};
  Matrix a{kM, 16}, b{16, kN};
  a(3, 2) = kInfinity, a(4, 0) = kNan, b(2, 5) = 2, b(2, 6) = -1, b(0, 1) = 1;
  const Buffer<uint32_t> a_words(fragments(a, 4, kOfBf16, place_in_a)), b_words(fragments(b, 2, kOfBf16, place_in_b));
  Buffer<uint32_t> c(128), d(128, false);
  ASSERT_EQ(run_source(kernel_of(product, false), blocks_of(32), {a_words, b_words, c, d}), "");
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t i = 0; i < 4; ++i) {
      const At at = place_in_c(lane, i);
      const double got = value(std::bit_cast<float>(d[lane * 4 + i]));
      const bool is_nan = at.row == 4 || (at.row == 3 && at.column != 5 && at.column != 6);
      if (is_nan) {
        EXPECT_TRUE(std::isnan(got)) << at.row << ", " << at.column;
      } else {
        EXPECT_EQ(got, at.row != 3 ? 0 : at.column == 5 ? kInfinity : -kInfinity) << at.row << ", " << at.column;
      }
    }
  }
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
