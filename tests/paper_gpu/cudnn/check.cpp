// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "paper_gpu/cudnn/execute.h"
#include "paper_gpu/cudnn/limits.h"
#include "paper_gpu/paper_gpu.h"

namespace gradmill::paper::dnn {
namespace {

// For a tensor whose sequences begin at the positions given by its strides.
int64_t elements_spanned(const Tensor& tensor) {
  int64_t last = 0;
  for (size_t axis = 0; axis < 4; ++axis) last += (tensor.dim[axis] - 1) * tensor.stride[axis];
  return last + 1;
}

std::string check_tensor(const Tensor& tensor, const Pack& pack) {
  const auto found = pack.data.find(tensor.id);
  if (found == pack.data.end() || found->second == nullptr) return tensor.describe() + " has no memory";
  if (tensor.by_value) return {};
  const void* const data = found->second;
  // The frontend declares the same alignment for all tensors, but does not follow it for numbers in the workspace.
  const size_t alignment = tensor.is_narrow() ? static_cast<size_t>(tensor.alignment) : tensor.element_bytes();
  if (reinterpret_cast<uintptr_t>(data) % alignment != 0) {
    return fmt::format("{} is not aligned to {} bytes", tensor.describe(), alignment);
  }
  // The extent of a ragged tensor is known only when its offsets are.
  const int64_t elements = tensor.offsets == kNone ? elements_spanned(tensor) : 1;
  expect_inside(data, static_cast<size_t>(elements) * tensor.element_bytes(), Where::device_or_host,
                "cuDNN's " + tensor.describe());
  return {};
}

}  // namespace

std::string check(const Graph& graph, const Pack& pack) {
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.is_virtual) continue;
    if (std::string reason = check_tensor(tensor, pack); !reason.empty()) return reason;
  }
  const auto bytes = static_cast<size_t>(workspace_bytes(graph));
  if (bytes > 0) expect_inside(pack.workspace, bytes, Where::device, "cuDNN's workspace");
  return {};
}

}  // namespace gradmill::paper::dnn
