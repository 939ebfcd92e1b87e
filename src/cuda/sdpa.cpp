// SPDX-License-Identifier: Apache-2.0
#include "cuda/sdpa.h"

#include <cudnn_graph.h>

#include <map>
#include <utility>

#include "core/error.h"
#include "cuda/gpu_stream.h"
#include "cuda/sdpa_cudnn.h"
#include "cuda/sdpa_graph.h"

namespace gradmill::cuda {
namespace {

// An op that needs more workspace than this does not use cuDNN. cuDNN's deterministic backward stores a T×T matrix per
// head. Its ragged backward keeps accumulators as wide as the packed rows that receive the gradients.
size_t workspace_limit(const SdpaProblem& problem) {
  constexpr size_t kGiB = size_t{1} << 30, kMiB = size_t{1} << 20;
  if (problem.deterministic) return kGiB;
  const auto width = static_cast<size_t>((problem.heads + 2 * problem.kv_heads) * problem.head_dim);
  return 64 * kMiB + 8 * static_cast<size_t>(problem.rows) * width * size_of(problem.dtype);
}

}  // namespace

struct Sdpa::Impl {
  GpuStream& gpu;
  std::unique_ptr<cudnnContext, CudnnHandleDeleter> handle;
  std::string no_handle;  // why there is no handle
  bool opened = false;
  // the key also says whether it is the backward
  std::map<std::pair<SdpaProblem, bool>, std::unique_ptr<SdpaGraph>> graphs;
  std::map<SdpaProblem, std::string> refusals;

  // Opening cuDNN takes a second and some memory, so it happens on first use.
  const std::string& open() {
    if (std::exchange(opened, true)) return no_handle;
    no_handle = cudnn_missing();
    if (!no_handle.empty()) return no_handle;
    cudnnHandle_t created = nullptr;
    cudnnStatus_t status = cudnnCreate(&created);
    if (status == CUDNN_STATUS_SUCCESS) {
      handle.reset(created);
      status = cudnnSetStream(created, gpu.stream());
    }
    if (status != CUDNN_STATUS_SUCCESS) no_handle = std::string("cuDNN does not start: ") + cudnnGetErrorString(status);
    return no_handle;
  }

  // Reasons to refuse that need no plan. Other limits of the library are found by planning.
  std::string refuses_outright(const SdpaProblem& problem) {
    if (problem.dtype == DType::fp32) return "cuDNN has no fp32 attention";
    if (gpu.compute_capability() < 80) return "cuDNN's attention needs compute capability 8.0";
    if (problem.head_dim % 8 != 0) return "cuDNN requires a head size that is a multiple of 8";
    for (int64_t stride : {problem.q_stride, problem.k_stride, problem.v_stride, problem.out_stride}) {
      if (stride % 8 != 0) return "cuDNN requires rows at multiples of 16 bytes";
    }
    if (!open().empty()) return open();
    if (std::string wrong = known_wrong_in_cudnn(problem, gpu.compute_capability(), cudnn_version()); !wrong.empty()) {
      return wrong;
    }
    // Older versions store the statistics of ragged sequences as if all had full length.
    if (problem.ragged && cudnn_version() < 90600) return "sequences of different lengths need cuDNN 9.6";
    if (problem.ragged && gpu.compute_capability() < 90) {
      return "cuDNN takes sequences of different lengths from compute capability 9.0 on";
    }
    return {};
  }

  SdpaGraph& graph(const SdpaProblem& problem, bool backward) {
    auto& slot = graphs[{problem, backward}];
    if (!slot) slot = std::make_unique<SdpaGraph>(handle.get(), problem, backward);
    return *slot;
  }

  std::string find_refusal(const SdpaProblem& problem) {
    if (std::string reason = refuses_outright(problem); !reason.empty()) return reason;
    for (bool backward : {false, true}) {
      const SdpaGraph& planned = graph(problem, backward);
      if (!planned.refusal().empty()) return planned.refusal();
      if (planned.workspace_bytes() > workspace_limit(problem)) {
        return fmt::format("cuDNN needs {} MiB of workspace", planned.workspace_bytes() >> 20);
      }
    }
    return {};
  }

  void run(const SdpaProblem& problem, bool backward, const SdpaBuffers& buffers) {
    SdpaGraph& planned = graph(problem, backward);
    if (!planned.refusal().empty())
      throw Error(ExitCode::failure, planned.refusal(), "choose another attention backend");
    planned.run(handle.get(), buffers);
  }
};

Sdpa::Sdpa(GpuStream& gpu) : impl_(new Impl{gpu}) {}
Sdpa::~Sdpa() = default;

// Up to 9.15, the frontend would copy lengths from host memory that no longer exists when a captured step is replayed.
bool Sdpa::takes_dense(int64_t len) { return len % 128 == 0 || !impl_->open().empty() || cudnn_version() > 91500; }

std::string Sdpa::refuses(const SdpaProblem& problem) {
  const auto [at, is_new] = impl_->refusals.try_emplace(problem);
  if (is_new) at->second = impl_->find_refusal(problem);
  return at->second;
}

size_t Sdpa::workspace_bytes(const SdpaProblem& problem, bool backward) {
  return impl_->graph(problem, backward).workspace_bytes();
}

void Sdpa::forward(const SdpaProblem& problem, const SdpaBuffers& buffers) { impl_->run(problem, false, buffers); }
void Sdpa::backward(const SdpaProblem& problem, const SdpaBuffers& buffers) { impl_->run(problem, true, buffers); }

}  // namespace gradmill::cuda
