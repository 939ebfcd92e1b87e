// SPDX-License-Identifier: Apache-2.0
// The limits of cuDNN 9.19 are its own answers when asked for engines and their workspace with the properties of these
// GPUs. Those of older versions are from NVIDIA's support matrix and release notes.
#include "paper_gpu/cudnn/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "paper_gpu/paper_gpu.h"

namespace gradmill::paper::dnn {
namespace {

constexpr size_t kThisVersion = 91900;

// The properties that the limits depend on.
struct Problem {
  const Tensor* q = nullptr;
  int64_t head_dim = 0;
  bool backward = false, ragged = false, deterministic = false;
};

const Tensor& at(const Graph& graph, int tensor) { return graph.tensors[static_cast<size_t>(tensor)]; }

Problem problem_of(const Graph& graph) {
  Problem found;
  int products = 0;
  bool converts = false;  // from sums that many blocks add to in unspecified order
  for (const Operation& operation : graph.operations) {
    products += operation.kind == Kind::product;
    converts |= operation.kind == Kind::pointwise && operation.mode == CUDNN_POINTWISE_IDENTITY;
    if (operation.kind == Kind::product && found.q == nullptr && !at(graph, operation.x).is_virtual) {
      found.q = &at(graph, operation.x);
    }
  }
  found.backward = products > 2;
  found.deterministic = found.backward && !converts;
  found.head_dim = found.q == nullptr ? 0 : found.q->dim[3];
  found.ragged = std::ranges::any_of(graph.tensors, [](const Tensor& tensor) { return tensor.offsets != kNone; });
  return found;
}

// Hopper's backward supports wider heads since 9.5, all forwards since 9.10.
int64_t widest_head(int generation, bool backward) {
  if (generation == 9) return backward && version() < 90500 ? 128 : 256;
  return backward || version() < 91000 ? 128 : 256;
}

std::string refuses_ragged(const Problem& problem, int generation) {
  if (version() < 90600) return "ragged statistics need cuDNN 9.6";
  const bool large = generation == 9 || generation == 10;
  if (large || (generation == 12 && !problem.backward)) return {};
  if (version() < 91801) return "ragged tensors are not supported on this GPU before cuDNN 9.18.1";
  if (problem.deterministic) return "the deterministic algorithm of this GPU is not for ragged tensors";
  const auto &dim = problem.q->dim, &stride = problem.q->stride;
  const bool interleaved = stride[0] > dim[1] * dim[2] * dim[3];
  return gpu().compute_capability == 120 && interleaved ? "interleaved layouts are not supported" : "";
}

// Rows must start where copies of 16 bytes can begin.
std::string refuses_layout(const Tensor& tensor) {
  for (size_t axis = 1; axis < 4; ++axis) {
    const bool stands_alone = tensor.dim[axis] == 1 || tensor.stride[axis] == 1;
    if (!stands_alone && tensor.stride[axis] % 8 != 0) return fmt::format("{} has odd strides", tensor.describe());
  }
  return tensor.stride[2] == 1 || tensor.stride[3] == 1 ? "" : fmt::format("{} has gaps", tensor.describe());
}

// Reductions over heads whose inputs the frontend has not put into the workspace itself.
int64_t num_sums_of_heads(const Graph& graph) {
  return std::ranges::count_if(graph.operations, [&](const Operation& operation) {
    const bool sums =
        operation.kind == Kind::reduction && at(graph, operation.x).dim[1] != at(graph, operation.y).dim[1];
    return sums && at(graph, operation.x).is_virtual;
  });
}

int64_t rounded(int64_t length) { return (length + 63) / 64 * 64; }

}  // namespace

size_t version() {
  const char* const wanted = std::getenv("PAPER_CUDNN");
  if (wanted == nullptr || *wanted == '\0') return kThisVersion;
  return std::string_view(wanted) == "off" ? 0 : std::strtoul(wanted, nullptr, 10);
}

std::string refusal(const Graph& graph) {
  const Problem problem = problem_of(graph);
  const int generation = gpu().compute_capability / 10;
  if (generation < 8) return "attention needs compute capability 8.0";
  if (problem.q == nullptr) return "there is no engine for this graph";
  if (!problem.q->is_narrow()) return "attention is for 16-bit types";
  if (problem.head_dim % 8 != 0) return "heads must be a multiple of 8";
  if (problem.head_dim > widest_head(generation, problem.backward)) {
    return fmt::format("heads of {} are too wide", problem.head_dim);
  }
  for (const Tensor& tensor : graph.tensors) {
    if (!tensor.is_narrow() || tensor.is_virtual) continue;
    if (tensor.type != problem.q->type) return "attention is for tensors of one type";
    if (std::string reason = refuses_layout(tensor); !reason.empty()) return reason;
  }
  return problem.ragged ? refuses_ragged(problem, generation) : "";
}

int64_t workspace_bytes(const Graph& graph) {
  const Problem problem = problem_of(graph);
  if (!problem.backward || problem.q == nullptr) return 0;
  const auto& dim = problem.q->dim;
  const int generation = gpu().compute_capability / 10;
  const int64_t matrix = dim[0] * dim[1] * dim[2] * problem.head_dim;
  int64_t bytes = 256 + (problem.ragged ? 768 * dim[0] : 0);
  // Gradients of keys and values for all heads, to be summed over groups.
  const int64_t sums = num_sums_of_heads(graph);
  bytes += 2 * sums * matrix;
  if (problem.deterministic) {
    bytes += generation == 10 ? 2 * sums * matrix : 2 * dim[0] * dim[1] * rounded(dim[2]) * rounded(dim[2]);
  } else if (generation == 8 || generation == 12) {
    bytes += 4 * matrix;
  }
  return bytes;
}

}  // namespace gradmill::paper::dnn
