// SPDX-License-Identifier: Apache-2.0
#include "bench/op_bench.h"

#include <gtest/gtest.h>

#include "bench/step_bench.h"

namespace gradmill {
namespace {

TEST(OpBench, RowsFollowFromTheCeilings) {
  OpBench bench{.device = "a GPU",
                .precision = "bf16",
                .ceilings = {.bandwidth = 1e12, .matrix_flops = 1e14, .product_size = 8192},
                .steps = 2,
                .step_ms = 3};
  DeviceSpec device;
  // Two GEMMs whose bound is 1 ms and that took 2 ms each, and two moves whose bound is 1 ms and that took 1 ms.
  for (int i = 0; i < 2; ++i) {
    bench.ledger.add(device, "matmul 1x2x3 nt", DType::bf16, {.flops = 1e11, .bytes = 1e8, .matrix = true});
    bench.ledger.add_measured("matmul 1x2x3 nt", 2e-3);
    bench.ledger.add(device, "norm", DType::bf16, {.flops = 1e9, .bytes = 1e9});
    bench.ledger.add_measured("norm", 1e-3);
  }
  const std::string text = describe(bench);
  EXPECT_NE(text.find("copies 1000 GB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("|     1 |      2000.0 |   50 |      5% |      50 |     50% | 66.7% |       1.000 |"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("|     1 |      1000.0 | 1000 |    100% |       - |       - | 33.3% |       0.000 |"),
            std::string::npos)
      << text;
  EXPECT_LT(text.find("matmul 1x2x3 nt"), text.find("norm")) << "the slowest stands first";
  EXPECT_NE(text.find("ops take 3.000 ms together"), std::string::npos) << text;
}

TEST(OpBench, ProductsAreToldApartByShape) {
  RunConfig config;
  config.machine.device = "cpu";
  config.machine.threads = 1;
  config.model.layers = 1;
  config.model.heads = 2;
  config.model.width = 16;
  config.model.context = 8;
  config.training.batch_size = 4;
  config.training.micro_batch_size = 2;
  const OpBench bench = bench_ops(config, 11, 2);
  EXPECT_GT(bench.ceilings.bandwidth, 0);
  EXPECT_GT(bench.ceilings.matrix_flops, 0);
  EXPECT_GT(bench.step_ms, 0);
  const auto& lines = bench.ledger.lines();
  EXPECT_FALSE(lines.contains("matmul"));
  // The MLP's first layer: forward, gradient of its input, gradient of its weights.
  for (const char* name : {"matmul 128x64x16 nt", "matmul 128x16x64 nn", "matmul 64x16x128 tn"}) {
    ASSERT_TRUE(lines.contains(name)) << name;
    EXPECT_EQ(lines.at(name).calls, 2) << name;
    EXPECT_GT(lines.at(name).measured, 0) << name;
  }
}

// A row of a classifier is one sequence, with one row of logits.
TEST(StepBench, ClassifiersHaveAsManyLogitsAsSequences) {
  RunConfig config;
  config.machine.device = "cpu";
  config.machine.threads = 1;
  config.data.path = "-";
  config.data.task = "classify";
  config.model.style = "bert";
  config.model.layers = 1;
  config.model.heads = 2;
  config.model.width = 16;
  config.model.context = 16;
  config.training.batch_size = 4;
  const StepBenchResult result = bench_steps(config, 11, {.steps = 1});
  EXPECT_GT(result.loss, 0);
  EXPECT_LT(result.loss, 2);
}

}  // namespace
}  // namespace gradmill
