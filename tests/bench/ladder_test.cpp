// SPDX-License-Identifier: Apache-2.0
// The ladder: which rungs a device gets, the results, and how they are written.
#include "core/gpu_catalogue.h"
#include "bench/ladder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace gradmill {
namespace {

using nlohmann::json;

std::vector<std::string> names_of(const std::vector<Rung>& rungs) {
  std::vector<std::string> names;
  for (const Rung& rung : rungs) names.push_back(rung.name);
  return names;
}

const Rung& find(const std::vector<Rung>& rungs, const std::string& name) {
  for (const Rung& rung : rungs) {
    if (rung.name == name) return rung;
  }
  throw std::runtime_error("no rung " + name);
}

bool has(const Rung& rung, const std::string& setting) {
  return std::find(rung.settings.begin(), rung.settings.end(), setting) != rung.settings.end();
}

TEST(LadderRungs, AGpuClimbsFromPlainToEverything) {
  const LadderRungs rungs = ladder_rungs(RunConfig{}, device_by_name("h100"));
  const std::vector<std::string> expected = {"fp32, math attention",
                                             "+ tf32",
                                             "+ bf16",
                                             "+ flash attention",
                                             "+ fused AdamW",
                                             "+ CUDA graphs",
                                             "+ autotuned GEMMs",
                                             "+ save policy cheap",
                                             "+ save policy block"};
  EXPECT_EQ(names_of(rungs.climb), expected);
  EXPECT_EQ(rungs.climb[0].settings, (std::vector<std::string>{"machine.dtype=fp32", "attention.backend=math",
                                                               "compile.mode=off", "optimizer.fused=false"}));
  EXPECT_EQ(rungs.climb[6].settings, (std::vector<std::string>{"machine.dtype=bf16", "attention.backend=auto",
                                                               "optimizer.fused=true", "compile.mode=max-autotune"}));
  for (const Rung& rung : rungs.climb) EXPECT_TRUE(rung.unavailable.empty());
}

TEST(LadderRungs, OneThingOffLeavesTheRestOn) {
  const LadderRungs rungs = ladder_rungs(RunConfig{}, device_by_name("h100"));
  EXPECT_EQ(rungs.everything, "+ autotuned GEMMs");
  ASSERT_EQ(rungs.all_but.size(), 8u);
  for (const Rung& rung : rungs.all_but) EXPECT_EQ(rung.settings.size(), 4u) << rung.name;
  EXPECT_TRUE(has(find(rungs.all_but, "fused AdamW"), "optimizer.fused=false"));
  EXPECT_TRUE(has(find(rungs.all_but, "fused AdamW"), "compile.mode=max-autotune"));
  SessionOptions options;
  options.capture = options.autotune = true;
  find(rungs.all_but, "CUDA graphs").adjust(options);
  EXPECT_FALSE(options.capture);
  EXPECT_TRUE(options.autotune);
  find(rungs.all_but, "activations fused with GEMMs").adjust(options);
  EXPECT_FALSE(options.kernels.fused_activations);
  find(rungs.all_but, "batched weight gradients").adjust(options);
  EXPECT_FALSE(options.kernels.batched_gradients);
  find(rungs.all_but, "norms fused with GEMMs").adjust(options);
  EXPECT_FALSE(options.kernels.norms_in_products);
  RunConfig gated;
  gated.model.style = "llama";
  EXPECT_EQ(ladder_rungs(gated, device_by_name("h100")).all_but.size(), 8u);
  EXPECT_EQ(ladder_rungs(gated, device_by_name("a100-80")).all_but.size(), 6u);
}

TEST(LadderRungs, AttentionIsSwitchedToAnother) {
  RunConfig config;
  config.model.width = 768;
  config.model.heads = 12;
  config.model.context = 1024;
  config.model.dropout = 0;
  const auto find_on = [&](const char* device, const char* name) {
    return find(ladder_rungs(config, device_by_name(device)).all_but, name);
  };
  EXPECT_TRUE(has(find_on("h100", "our attention (cuDNN instead)"), "attention.backend=cudnn"));
  EXPECT_TRUE(has(find_on("rtx4090", "cuDNN attention (flash instead)"), "attention.backend=flash"));
  EXPECT_FALSE(find_on("t4", "cuDNN attention (flash instead)").unavailable.empty());
  config.model.heads = 6;
  EXPECT_TRUE(has(find_on("h100", "cuDNN attention (flash instead)"), "attention.backend=flash"));
}

TEST(LadderRungs, AnOlderGpuHasFp16AndSaysWhatItLacks) {
  const LadderRungs rungs = ladder_rungs(RunConfig{}, device_by_name("t4"));
  EXPECT_FALSE(rungs.climb[1].unavailable.empty());
  EXPECT_EQ(rungs.climb[2].name, "+ fp16");
  EXPECT_TRUE(has(rungs.all_but[3], "machine.dtype=fp32"));
}

TEST(LadderRungs, ACpuHasThreadsAndPolicies) {
  RunConfig config;
  config.machine.device = "cpu";
  config.machine.threads = 3;
  config.machine.save_policy = "cheap";
  const LadderRungs rungs = ladder_rungs(config, host_cpu());
  EXPECT_EQ(names_of(rungs.climb),
            (std::vector<std::string>{"fp32, one thread", "+ 3 threads", "+ save policy block"}));
  EXPECT_TRUE(rungs.all_but.empty());
}

RungResult result(std::string name, std::vector<double> speeds, double loss) {
  return {.name = std::move(name),
          .settings = {"machine.dtype=fp32"},
          .tokens_per_second = std::move(speeds),
          .memory_bytes = size_t{3} << 20,
          .loss = loss,
          .grad_norm = 2};
}

TEST(RungResult, MedianAndInterval) {
  const RungResult rung = result("a", {100, 104, 102}, 4);
  EXPECT_EQ(rung.median(), 102);
  // The standard deviation is 2, so the half interval is 4.303 * 2 / sqrt(3).
  EXPECT_NEAR(rung.half_interval(), 4.9687, 1e-3);
  EXPECT_TRUE(std::isnan(result("b", {100}, 4).half_interval()));
}

TEST(RungResult, ParityLooksAtLossAndGradient) {
  const RungResult reference = result("a", {1}, 4);
  RungResult other = result("b", {1}, 4.015);
  EXPECT_TRUE(parity(other, reference).ok());
  other.loss = 4.03;
  EXPECT_FALSE(parity(other, reference).ok());
  other.loss = std::nan("");
  EXPECT_FALSE(parity(other, reference).ok());
  other.loss = 4;
  other.grad_norm = 2.2;
  EXPECT_FALSE(parity(other, reference).ok());
}

Ladder example() {
  Ladder ladder{.device = "a GPU", .model = "a model", .steps = 5, .repeats = 2, .everything = "+ graphs"};
  RungResult first = result("fp32", {}, 0);
  first.failure = "does not fit: the plan needs 90 GiB, the device has 80 GiB";
  RungResult noisy = result("+ bf16", {200, 200}, 4.001);
  noisy.notes = {"cuDNN is not here"};
  ladder.climb = {first, result("+ tf32", {100, 100}, 4), noisy, result("+ graphs", {300, 300}, 4.5)};
  ladder.all_but = {result("graphs", {150, 150}, 4)};
  return ladder;
}

TEST(Ladder, MarkdownHidesNothing) {
  const std::string text = ladder_markdown(example());
  for (const char* part : {"| fp32 ", "not run", "does not fit: the plan needs 90 GiB", "x 2.00", "x 1.50", "OFF",
                           "reference", "cuDNN is not here", "Parity with '+ tf32'", "on except one thing", "x 0.50"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Ladder, WhatSeveralRungsSayIsSaidOnce) {
  Ladder ladder = example();
  ladder.climb[1].notes = {"cuDNN is not here"};
  EXPECT_NE(ladder_markdown(ladder).find("- + tf32, + bf16: cuDNN is not here\n"), std::string::npos);
}

TEST(Ladder, JsonHoldsEveryRung) {
  const json object = json::parse(ladder_json(example()));
  ASSERT_EQ(object.at("climb").size(), 4u);
  EXPECT_EQ(object.at("reference"), "+ tf32");
  EXPECT_TRUE(object.at("climb")[0].contains("failure"));
  EXPECT_FALSE(object.at("climb")[0].contains("tokens_per_s"));
  EXPECT_EQ(object.at("climb")[2].at("tokens_per_s"), 200);
  EXPECT_EQ(object.at("climb")[2].at("parity"), true);
  EXPECT_EQ(object.at("climb")[3].at("parity"), false);
  EXPECT_EQ(object.at("all_but")[0].at("repeats").size(), 2u);
}

RunConfig tiny_config() {
  RunConfig config;
  config.machine.device = "cpu";
  config.machine.threads = 2;
  config.model.layers = 1;
  config.model.heads = 2;
  config.model.width = 16;
  config.model.context = 8;
  config.training.batch_size = 2;
  return config;
}

TEST(Ladder, RunsOnTheCpuWithTheSameLosses) {
  int rungs = 0;
  const Ladder ladder =
      run_ladder(tiny_config(), 11, {.steps = 2, .repeats = 2, .progress = [&](const RungResult&) { ++rungs; }});
  ASSERT_EQ(ladder.climb.size(), 4u);
  EXPECT_EQ(rungs, 4);
  for (const RungResult& rung : ladder.climb) {
    EXPECT_TRUE(rung.ran()) << rung.failure;
    EXPECT_EQ(rung.tokens_per_second.size(), 2u);
    EXPECT_EQ(rung.loss, ladder.climb[0].loss) << rung.name;  // threads and policies must not change a bit
    EXPECT_EQ(rung.grad_norm, ladder.climb[0].grad_norm) << rung.name;
  }
}

TEST(Ladder, WhatDoesNotFitIsSaid) {
  RunConfig config = tiny_config();
  config.model.context = 1 << 16;
  config.training.batch_size = 1 << 20;
  const Ladder ladder = run_ladder(config, 11, {.steps = 1, .repeats = 1});
  EXPECT_EQ(ladder.reference(), nullptr);
  EXPECT_NE(ladder.climb[0].failure.find("does not fit"), std::string::npos) << ladder.climb[0].failure;
  EXPECT_NE(ladder_markdown(ladder).find("not run"), std::string::npos);
}

}  // namespace
}  // namespace gradmill
