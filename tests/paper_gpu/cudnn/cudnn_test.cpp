// SPDX-License-Identifier: Apache-2.0
// Tests the paper cuDNN through the trainer's own code: its results, its refusals, and the faults it finds.
#include <cudnn_graph.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "cuda/sdpa_cudnn.h"
#include "cuda/sdpa_graph.h"
#include "paper_gpu/cudnn/attention_problem.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/shadow.h"

namespace gradmill::paper {
namespace {

using cuda::SdpaBuffers;
using cuda::SdpaGraph;

class CudnnTest : public testing::Test {
 protected:
  CudnnTest() {
    unsetenv("PAPER_CUDNN");
    EXPECT_EQ(cuda::cudnn_missing(), "");
    cudaSetDevice(gpu_index());
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    EXPECT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetStream(handle_, stream_), CUDNN_STATUS_SUCCESS);
  }
  ~CudnnTest() override {
    unsetenv("PAPER_CUDNN");
    cudnnDestroy(handle_);
    cudaStreamDestroy(stream_);
  }

  static bool takes(const AttentionCase& c) {
    const int generation = gpu().compute_capability / 10;
    if (generation < 8 || (c.head_dim > 128 && generation != 9)) return false;
    // q, k and v are side by side, which 12.0 does not support.
    return !c.ragged || generation == 9 || generation == 10 || (generation == 8 && !c.deterministic);
  }

  std::string refusal(const AttentionCase& c, bool backward) const {
    return SdpaGraph(handle_, c.problem(), backward).refusal();
  }

  // New faults since the last call.
  std::vector<std::string> new_faults() {
    std::vector<std::string> found(faults().begin() + static_cast<std::ptrdiff_t>(seen_), faults().end());
    seen_ = faults().size();
    return found;
  }
  void expect_fault(const std::string& what) {
    const std::vector<std::string> found = new_faults();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found.front().find(what), std::string::npos) << found.front();
  }

  void run(const SdpaGraph& graph, const SdpaBuffers& buffers) {
    graph.run(handle_, buffers);
    cudaStreamSynchronize(stream_);
  }

  void expect_computed(const AttentionCase& c, const SdpaGraph& forward, const SdpaGraph& backward);

  cudaStream_t stream_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  size_t seen_ = faults().size();
};

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::fabs(actual[i] - expected[i]) / (1 + std::fabs(expected[i]));
    if (!(error <= worst)) worst = error;
  }
  EXPECT_LE(worst, tolerance) << what;
}

void CudnnTest::expect_computed(const AttentionCase& c, const SdpaGraph& forward, const SdpaGraph& backward) {
  const AttentionValues expected = reference(c);
  AttentionMemory memory(c, expected);
  const SdpaBuffers buffers = memory.buffers(std::max(forward.workspace_bytes(), backward.workspace_bytes()));
  run(forward, buffers);
  run(backward, buffers);
  const AttentionValues actual = memory.read();
  const double tolerance = c.dtype == DType::bf16 ? 0.01 : 0.001;
  expect_near(actual.out, expected.out, tolerance, fmt::format("out, {}", c.name));
  expect_near(actual.dqkv, expected.dqkv, tolerance, fmt::format("gradients, {}", c.name));
  expect_near(actual.lse, expected.lse, 1e-5, fmt::format("lse, {}", c.name));
  for (int64_t row = c.problem().rows - c.padding; row < c.problem().rows; ++row) {
    EXPECT_NE(why_not_read(reinterpret_cast<uint64_t>(memory.out_row(row)), 2), "") << "padding is written";
  }
  EXPECT_TRUE(new_faults().empty()) << c.name;
}

TEST_F(CudnnTest, ComputesWhatTheReferenceDoes) {
  for (const AttentionCase& c : attention_cases()) {
    const SdpaGraph forward(handle_, c.problem(), false), backward(handle_, c.problem(), true);
    ASSERT_EQ((forward.refusal() + backward.refusal()).empty(), takes(c)) << c.name;
    if (takes(c)) expect_computed(c, forward, backward);
  }
}

// The frontend builds other graphs for older versions, to avoid their defects.
TEST_F(CudnnTest, ComputesAsOlderVersionsToo) {
  for (const char* version : {"90800", "91000", "91500"}) {
    setenv("PAPER_CUDNN", version, 1);
    int computed = 0;
    for (const AttentionCase& c : attention_cases()) {
      const SdpaGraph forward(handle_, c.problem(), false), backward(handle_, c.problem(), true);
      if (!forward.refusal().empty() || !backward.refusal().empty()) continue;
      expect_computed(c, forward, backward);
      ++computed;
    }
    EXPECT_GE(computed, gpu().compute_capability < 80 ? 0 : 5) << version;
  }
}

TEST_F(CudnnTest, RunsAgainFromAGraph) {
  const AttentionCase& c = attention_cases().front();
  if (!takes(c)) GTEST_SKIP() << "needs compute capability 8.0";
  const AttentionValues expected = reference(c);
  AttentionMemory memory(c, expected);
  auto plan = std::make_unique<SdpaGraph>(handle_, c.problem(), false);
  const SdpaBuffers buffers = memory.buffers(plan->workspace_bytes());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  plan->run(handle_, buffers);
  cudaStreamEndCapture(stream_, &graph);
  cudaGraphInstantiate(&runnable, graph, 0);
  plan.reset();  // including its scale, which a launch copies
  EXPECT_NE(why_not_read(reinterpret_cast<uint64_t>(memory.out_row(0)), 2), "");
  cudaGraphLaunch(runnable, stream_);
  cudaStreamSynchronize(stream_);
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  std::vector<double> out(expected.out.size());
  std::vector<uint16_t> bits(out.size());
  memory.out.read(bits.data(), bits.size() * sizeof(uint16_t));
  for (size_t i = 0; i < out.size(); ++i) out[i] = double(std::bit_cast<float>(uint32_t{bits[i]} << 16));
  expect_near(out, expected.out, 0.01, "out");
  EXPECT_TRUE(new_faults().empty());
}

TEST_F(CudnnTest, RefusesWhatTheLibraryDoes) {
  const int generation = gpu().compute_capability / 10;
  const AttentionCase plain{.name = "plain", .lens = {128}};
  EXPECT_EQ(refusal(plain, false).empty(), generation >= 8);
  EXPECT_EQ(refusal(plain, true).empty(), generation >= 8);
  AttentionCase odd = plain, wide = plain, widest = plain;
  odd.head_dim = 60, wide.head_dim = 256, widest.head_dim = 264;
  EXPECT_NE(refusal(odd, false), "");
  EXPECT_EQ(refusal(wide, false).empty(), generation >= 8);
  EXPECT_EQ(refusal(wide, true).empty(), generation == 9);
  EXPECT_NE(refusal(widest, false), "");
  AttentionCase ragged = plain;
  ragged.ragged = true;
  const bool large = generation == 9 || generation == 10;
  EXPECT_EQ(refusal(ragged, false).empty(), generation >= 8);
  EXPECT_EQ(refusal(ragged, true).empty(), generation == 8 || large);
  setenv("PAPER_CUDNN", "91000", 1);
  EXPECT_EQ(cudnnGetVersion(), 91000u);
  EXPECT_EQ(refusal(plain, true).empty(), generation >= 8);
  EXPECT_EQ(refusal(ragged, true).empty(), large);
  EXPECT_EQ(refusal(ragged, false).empty(), generation >= 9);
  setenv("PAPER_CUDNN", "90500", 1);
  EXPECT_NE(refusal(ragged, false), "");
  EXPECT_EQ(refusal(wide, false).empty(), generation == 9);
  EXPECT_TRUE(new_faults().empty());
}

// As measured for cuDNN 9.19: matrices of 4 x 12 x 1024 x 128 elements, for all heads or for the scores.
TEST_F(CudnnTest, WantsTheWorkspaceThatTheLibraryDoes) {
  if (gpu().compute_capability / 10 != 9) GTEST_SKIP() << "of Hopper";
  AttentionCase c{.name = "", .lens = {1024, 1024, 1024, 1024}, .heads = 12, .kv_heads = 4, .head_dim = 128};
  EXPECT_EQ(SdpaGraph(handle_, c.problem(), false).workspace_bytes(), 0u);
  const size_t frontends = 4 * 12 * 1024 * 4 * (128 + 1);  // sums of dq and of rows, in fp32
  EXPECT_EQ(SdpaGraph(handle_, c.problem(), true).workspace_bytes(), frontends + 25166080u);
}

TEST_F(CudnnTest, DoesNotStartWhenItIsOff) {
  setenv("PAPER_CUDNN", "off", 1);
  cudnnHandle_t handle = nullptr;
  EXPECT_NE(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(handle, nullptr);
}

TEST_F(CudnnTest, FindsUnwrittenMemory) {
  const AttentionCase& c = attention_cases().front();
  if (!takes(c)) GTEST_SKIP() << "needs compute capability 8.0";
  AttentionMemory memory(c, reference(c));
  const SdpaGraph forward(handle_, c.problem(), false), backward(handle_, c.problem(), true);
  const SdpaBuffers buffers = memory.buffers(std::max(forward.workspace_bytes(), backward.workspace_bytes()));
  const DeviceArray fresh(1 << 20);
  SdpaBuffers wrong = buffers;
  wrong.v = fresh.data();
  run(forward, wrong);
  expect_fault("tensor 3 (2 x 2 x 128 x 64), sequence 0, head 0");
  run(backward, buffers);  // this also writes all outputs of the forward
  EXPECT_TRUE(new_faults().empty());
  wrong = buffers;
  wrong.dout = fresh.data();
  run(backward, wrong);
  expect_fault("nothing has written");
}

TEST_F(CudnnTest, FindsMemoryThatIsNotThere) {
  const AttentionCase& c = attention_cases().front();
  if (!takes(c)) GTEST_SKIP() << "needs compute capability 8.0";
  AttentionMemory memory(c, reference(c));
  const SdpaGraph forward(handle_, c.problem(), false), backward(handle_, c.problem(), true);
  const SdpaBuffers buffers = memory.buffers(backward.workspace_bytes());
  const DeviceArray small(1000), short_workspace(backward.workspace_bytes() - 1);
  run(forward, buffers);
  SdpaBuffers wrong = buffers;
  wrong.workspace = short_workspace.data();
  run(backward, wrong);
  expect_fault("workspace");
  wrong = buffers;
  wrong.q = static_cast<std::byte*>(buffers.q) + 8;
  EXPECT_ANY_THROW(run(forward, wrong));
  expect_fault("not aligned to 16 bytes");
  wrong = buffers;
  wrong.out = small.data();
  run(forward, wrong);
  EXPECT_EQ(new_faults().size(), 2u);  // one for the request, and one for the row that is written beyond the end
}

TEST_F(CudnnTest, FindsLengthsThatDoNotFit) {
  AttentionCase c{.name = "lengths", .lens = {70, 20}, .ragged = true};
  if (!takes(c)) GTEST_SKIP() << "needs compute capability 8.0";
  AttentionMemory memory(c, reference(c));
  const SdpaGraph forward(handle_, c.problem(), false);
  const SdpaBuffers buffers = memory.buffers(forward.workspace_bytes());
  const int32_t longer[] = {70, 21};
  memory.lens.fill(longer, sizeof(longer));
  run(forward, buffers);
  expect_fault("sequence 1 has the length 21");
}

}  // namespace
}  // namespace gradmill::paper
