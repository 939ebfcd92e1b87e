// SPDX-License-Identifier: Apache-2.0
// Covers what the tests of ops/matmul/matmul do not: tuning, its cache, and graphs. Tensors are in device memory.
#include "cuda/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "cuda/devices.h"
#include "cuda/engine.h"
#include "cuda/handles.h"
#include "support/temporary_folder.h"

namespace gradmill::cuda {
namespace {

constexpr int64_t kM = 512, kN = 384, kK = 256;

// Values that differ from place to place and are exact in bf16.
std::vector<Bf16> values(int64_t count, int seed) {
  std::vector<Bf16> result;
  for (int64_t i = 0; i < count; ++i) result.emplace_back(static_cast<float>((i * 37 + seed * 11) % 61 - 30) / 32);
  return result;
}

class gemm_cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (present_devices().empty()) GTEST_SKIP() << "there is no GPU here";
    a_ = upload(kM, kK, 1);
    b_ = upload(kN, kK, 2);
  }

  TensorView upload(int64_t rows, int64_t cols, int seed) {
    const std::vector<Bf16> host = values(rows * cols, seed);
    memory_.emplace_back(host.size() * sizeof(Bf16));
    check(cudaMemcpy(memory_.back().bytes().data(), host.data(), host.size() * sizeof(Bf16), cudaMemcpyDefault),
          "copy");
    return {memory_.back().bytes().data(), DType::bf16, Shape{rows, cols}};
  }
  static std::vector<float> download(const Engine& engine, const TensorView& view) {
    engine.synchronise();
    std::vector<Bf16> host(static_cast<size_t>(view.numel()));
    check(cudaMemcpy(host.data(), view.data, view.bytes(), cudaMemcpyDefault), "copy");
    std::vector<float> result;
    for (Bf16 value : host) result.push_back(static_cast<float>(value));
    return result;
  }
  GemmCall call(float beta) { return {.a = a_, .b = b_, .c = upload(kM, kN, 3), .transpose_b = true, .beta = beta}; }
  static std::vector<float> expected(float beta) {
    const std::vector<Bf16> a = values(kM * kK, 1), b = values(kN * kK, 2), c = values(kM * kN, 3);
    std::vector<float> result;
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        // exact, because every term has few bits
        float sum = beta * static_cast<float>(c[static_cast<size_t>(i * kN + j)]);
        for (int64_t p = 0; p < kK; ++p)
          sum += static_cast<float>(a[static_cast<size_t>(i * kK + p)]) *
                 static_cast<float>(b[static_cast<size_t>(j * kK + p)]);
        result.push_back(static_cast<float>(Bf16(sum)));
      }
    }
    return result;
  }

  // Some of the library's algorithms round the product before they add to it: two roundings of half a unit each.
  static void expect_rounded(const std::vector<float>& actual, float beta) {
    const std::vector<float> wanted = expected(beta);
    ASSERT_EQ(actual.size(), wanted.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const float step = beta == 0 ? 0 : std::ldexp(1.0f, std::ilogb(std::max(1.0f, std::fabs(wanted[i]))) - 7);
      ASSERT_NEAR(actual[i], wanted[i], step) << "element " << i << ", beta " << beta;
    }
  }

  test::TemporaryFolder folder_;
  std::filesystem::path cache_ = folder_.path() / "tuning";
  std::vector<DeviceMemory> memory_;
  TensorView a_, b_;
};

// Adding to c, and overwriting it: trials must not disturb what the GEMM reads.
TEST_F(gemm_cuda, TunedProductsAreRightAndTheirAlgorithmsKept) {
  {
    Engine engine({.autotune = true, .tuning_cache = cache_.string()});
    for (float beta : {0.0f, 1.0f}) {
      const GemmCall product = call(beta);
      engine.gemm().run(product);
      expect_rounded(download(engine, product.c), beta);
    }
    EXPECT_FALSE(std::filesystem::exists(cache_));
    engine.gemm().save_tuning();
    EXPECT_TRUE(std::filesystem::exists(cache_));
  }
  Engine again({.tuning_cache = cache_.string()});
  const GemmCall product = call(1);
  again.gemm().run(product);
  expect_rounded(download(again, product.c), 1);
}

// The tanh GELU and its slope. The library's own tanh may be accurate to 11 bits only.
float gelu(float x) { return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x))); }
float gelu_slope(float x) {
  const float t = std::tanh(0.79788456f * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.79788456f * (1 + 3 * 0.044715f * x * x);
}
void expect_near(const std::vector<float>& actual, const std::vector<float>& wanted, float scale, const char* what) {
  ASSERT_EQ(actual.size(), wanted.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], wanted[i], 0.008f * std::fabs(wanted[i]) + 0.004f * scale) << what << " " << i;
}

TEST_F(gemm_cuda, GeluInAProductGivesBothSidesOfIt) {
  Engine engine(EngineOptions{});
  for (bool with_bias : {false, true}) {
    GemmCall product{.a = a_,
                     .b = b_,
                     .c = upload(kM, kN, 3),
                     .transpose_b = true,
                     .epilogue = GemmEpilogue::gelu,
                     .aux = upload(kM, kN, 4)};
    std::vector<float> x = expected(0);
    if (with_bias) {
      product.bias = upload(1, kN, 5).reshape({kN});
      const std::vector<Bf16> bias = values(kN, 5);
      for (size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(bias[i % kN]);
    }
    engine.gemm().run(product);
    std::vector<float> y;
    for (float value : x) y.push_back(gelu(value));
    expect_near(download(engine, product.aux), x, 1, "x");
    expect_near(download(engine, product.c), y, 1, "y");
  }
}

TEST_F(gemm_cuda, GeluGradientInAProduct) {
  Engine engine(EngineOptions{});
  const GemmCall product{.a = a_,
                         .b = b_,
                         .c = upload(kM, kN, 3),
                         .transpose_b = true,
                         .epilogue = GemmEpilogue::gelu_gradient,
                         .aux = upload(kM, kN, 4)};
  engine.gemm().run(product);
  std::vector<float> dx = expected(0);
  const std::vector<Bf16> x = values(kM * kN, 4);
  float most = 0;
  for (size_t i = 0; i < dx.size(); ++i) {
    most = std::max(most, std::fabs(dx[i]));
    dx[i] *= gelu_slope(static_cast<float>(x[i]));
  }
  expect_near(download(engine, product.c), dx, most, "dx");
  EXPECT_EQ(download(engine, product.aux), download(engine, upload(kM, kN, 4)));
}

// The answer is found by running both, is kept, and is the same for an engine that reads the cache.
TEST_F(gemm_cuda, AnEpilogueIsChosenByTheClockAndTheChoiceKept) {
  const GemmCall product{.a = a_,
                         .b = b_,
                         .c = upload(kM, kN, 3),
                         .transpose_b = true,
                         .epilogue = GemmEpilogue::gelu,
                         .aux = upload(kM, kN, 4)};
  int runs = 0;
  const DeviceMemory much(size_t{256} << 20);
  const auto slow = [&](const Engine& engine) {
    return [&] {
      ++runs;
      check(cudaMemsetAsync(much.bytes().data(), 0, much.bytes().size(), engine.stream()), "work");
    };
  };
  {
    Engine untimed(EngineOptions{});
    EXPECT_FALSE(untimed.gemm().prefers(product, slow(untimed)));
    EXPECT_EQ(runs, 0);
  }
  {
    Engine engine({.autotune = true, .tuning_cache = cache_.string()});
    EXPECT_TRUE(engine.gemm().prefers(product, slow(engine)));
    EXPECT_GT(runs, 1);
    GemmCall with_nothing_to_beat = product;
    with_nothing_to_beat.sums_follow = true;
    EXPECT_FALSE(engine.gemm().prefers(with_nothing_to_beat, [] {}));
  }
  runs = 0;
  Engine again({.autotune = true, .tuning_cache = cache_.string()});
  EXPECT_TRUE(again.gemm().prefers(product, slow(again)));
  EXPECT_EQ(runs, 0);
  GemmCall deterministic = product;
  deterministic.deterministic = true;
  EXPECT_FALSE(again.gemm().prefers(deterministic, slow(again)));
  again.gemm().run(product);
  std::vector<float> y;
  for (float value : expected(0)) y.push_back(gelu(value));
  expect_near(download(again, product.c), y, 1, "y");
}

TEST_F(gemm_cuda, ProductsCanBeCapturedOncePlanned) {
  Engine engine(EngineOptions{});
  const GemmCall product = call(1);
  engine.gemm().run(product);
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(engine.stream(), cudaStreamCaptureModeGlobal), "capture");
  engine.gemm().run(product);
  check(cudaStreamEndCapture(engine.stream(), &graph), "capture");
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  // The GEMM once more on the first result: c was 3 times the values, then + ab twice.
  check(cudaGraphLaunch(executable, engine.stream()), "launch");
  const std::vector<float> first = expected(1), product_alone = expected(0);
  const std::vector<float> twice = download(engine, product.c);
  for (size_t i = 0; i < twice.size(); ++i)
    ASSERT_NEAR(twice[i], first[i] + product_alone[i], 0.02f * std::abs(product_alone[i]) + 0.1f) << i;
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

}  // namespace
}  // namespace gradmill::cuda
