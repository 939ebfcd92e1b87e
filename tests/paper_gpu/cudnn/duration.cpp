// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cudnn/duration.h"

#include <algorithm>

#include "paper_gpu/model/library_time.h"

namespace gradmill::paper::dnn {
namespace {

double elements(const Tensor& tensor) {
  double count = 1;
  for (const int64_t size : tensor.dim) count *= double(size);
  return count;
}

// A causal mask compares indices. The library skips the half of the scores that it hides.
bool is_causal(const Graph& graph) {
  return std::any_of(graph.operations.begin(), graph.operations.end(), [](const Operation& operation) {
    return operation.kind == Kind::pointwise && operation.mode == CUDNN_POINTWISE_GEN_INDEX;
  });
}

}  // namespace

double duration_of(const Graph& graph) {
  double flops = 0, bytes = 0;
  for (const Operation& operation : graph.operations) {
    if (operation.kind != Kind::product) continue;
    const Tensor& x = graph.tensors[static_cast<size_t>(operation.x)];
    const Tensor& y = graph.tensors[static_cast<size_t>(operation.y)];
    flops += 2 * double(y.dim[2]) * double(y.dim[3]) * double(x.dim[3]) * double(graph.sequences * graph.heads);
  }
  for (const Tensor& tensor : graph.tensors) {
    if (!tensor.is_virtual && !tensor.by_value) bytes += elements(tensor) * double(tensor.element_bytes());
  }
  return model::attention_seconds(is_causal(graph) ? flops / 2 : flops, bytes);
}

}  // namespace gradmill::paper::dnn
