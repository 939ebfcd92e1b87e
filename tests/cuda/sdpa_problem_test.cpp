// SPDX-License-Identifier: Apache-2.0
#include "cuda/sdpa_problem.h"

#include <gtest/gtest.h>

namespace gradmill::cuda {
namespace {

constexpr int64_t kNoLimit = -1;

SdpaProblem causal(int64_t len) {
  return {.seqs = 2, .len = len, .heads = 4, .kv_heads = 4, .head_dim = 128, .right = 0};
}

SdpaProblem window(int64_t len, int64_t left, int64_t right) {
  SdpaProblem problem = causal(len);
  problem.left = left;
  problem.right = right;
  return problem;
}

SdpaProblem full(int64_t len) { return window(len, kNoLimit, kNoLimit); }

SdpaProblem ragged(SdpaProblem problem) {
  problem.ragged = true;
  return problem;
}

bool is_wrong(const SdpaProblem& problem, int capability, size_t version) {
  return !known_wrong_in_cudnn(problem, capability, version).empty();
}

TEST(KnownWrongInCudnn, TwoVersionsAltogether) {
  for (const int capability : {80, 86, 89, 90, 100, 120}) {
    EXPECT_TRUE(is_wrong(causal(1024), capability, 91000)) << capability;
    EXPECT_TRUE(is_wrong(causal(1024), capability, 91001)) << capability;
  }
  EXPECT_FALSE(is_wrong(causal(1024), 90, 91002));
  EXPECT_FALSE(is_wrong(causal(1024), 90, 90900));
}

TEST(KnownWrongInCudnn, WideWindowsWithoutACausalMaskIn914) {
  for (const size_t version : {size_t{91400}, size_t{91401}}) {
    EXPECT_TRUE(is_wrong(window(4096, 1025, 1025), 100, version));
    EXPECT_TRUE(is_wrong(window(4096, kNoLimit, 1025), 80, version));
    EXPECT_FALSE(is_wrong(window(4096, 64, 64), 100, version));
    EXPECT_FALSE(is_wrong(window(4096, 1024, 1024), 100, version));
    EXPECT_FALSE(is_wrong(window(4096, 2048, 0), 100, version)) << "causal";
    EXPECT_FALSE(is_wrong(full(4096), 100, version)) << "no window";
  }
  EXPECT_FALSE(is_wrong(window(4096, 1025, 1025), 100, 91300));
  EXPECT_FALSE(is_wrong(window(4096, 1025, 1025), 100, 91500));
}

TEST(KnownWrongInCudnn, RaggedOnHopperBefore918) {
  EXPECT_TRUE(is_wrong(ragged(causal(1024)), 90, 91700));
  EXPECT_FALSE(is_wrong(ragged(causal(1024)), 90, 91800));
  EXPECT_FALSE(is_wrong(ragged(causal(1024)), 100, 91700)) << "another generation";
  EXPECT_FALSE(is_wrong(causal(1024), 90, 91700)) << "dense";
}

TEST(KnownWrongInCudnn, HalfATileOfKeysOnHopperBefore926) {
  for (const int64_t len : {64, 192, 448}) {
    EXPECT_TRUE(is_wrong(full(len), 90, 91900)) << len;
    EXPECT_FALSE(is_wrong(full(len), 90, 92600)) << len;
    EXPECT_FALSE(is_wrong(causal(len), 90, 91900)) << len;
    EXPECT_FALSE(is_wrong(ragged(full(len)), 90, 91900)) << len << ": a padding mask covers the tail";
    EXPECT_FALSE(is_wrong(full(len), 80, 91900)) << len << ": another generation";
  }
  for (const int64_t len : {128, 256, 96, 100}) EXPECT_FALSE(is_wrong(full(len), 90, 91900)) << len;
}

TEST(KnownWrongInCudnn, ConsumerBlackwell) {
  for (const int capability : {120, 121}) {
    EXPECT_TRUE(is_wrong(ragged(causal(1024)), capability, 91900));
    EXPECT_TRUE(is_wrong(causal(1024), capability, 91800));
    EXPECT_FALSE(is_wrong(causal(1024), capability, 91801));
    SdpaProblem deterministic = causal(1024);
    deterministic.deterministic = true;
    EXPECT_TRUE(is_wrong(deterministic, capability, 91900));
    EXPECT_FALSE(is_wrong(deterministic, 100, 91900)) << "10.0 has one";
  }
}

}  // namespace
}  // namespace gradmill::cuda
