// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cudnn/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "paper_gpu/cudnn/read_operations.h"

namespace gradmill::paper::dnn {
namespace {

bool is_ready(const Graph& graph, const Operation& operation, const std::vector<bool>& done) {
  return std::ranges::all_of(operation.inputs(), [&](int input) {
    const int producer = graph.tensors[static_cast<size_t>(input)].producer;
    return producer == kNone || done[static_cast<size_t>(producer)];
  });
}

// The execution order of the operations: repeatedly the first one that is ready.
std::vector<size_t> order_of(const Graph& graph) {
  std::vector<size_t> order;
  std::vector<bool> done(graph.operations.size());
  while (order.size() < done.size()) {
    size_t next = 0;
    while (next < done.size() && (done[next] || !is_ready(graph, graph.operations[next], done))) ++next;
    if (next == done.size()) throw std::runtime_error("operations wait for one another");
    done[next] = true;
    order.push_back(next);
  }
  return order;
}

void find_producers(Graph& graph) {
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    Tensor& result = graph.tensors[static_cast<size_t>(graph.operations[i].y)];
    if (result.producer != kNone) throw std::runtime_error(result.describe() + " is computed twice");
    result.producer = static_cast<int>(i);
  }
}

void sort(Graph& graph) {
  find_producers(graph);
  std::vector<Operation> sorted;
  for (size_t i : order_of(graph)) sorted.push_back(graph.operations[i]);
  graph.operations = std::move(sorted);
  for (Tensor& tensor : graph.tensors) tensor.producer = kNone;
  find_producers(graph);
}

void find_sizes(Graph& graph) {
  for (const Operation& operation : graph.operations) {
    const Tensor& result = graph.tensors[static_cast<size_t>(operation.y)];
    graph.sequences = std::max(graph.sequences, result.dim[0]);
    graph.heads = std::max(graph.heads, result.dim[1]);
  }
  for (const Tensor& tensor : graph.tensors) {
    if (graph.heads % tensor.dim[1] != 0) throw std::runtime_error(tensor.describe() + " has heads of no group");
  }
}

// A tensor for all heads, in the workspace, has the offsets of the gradient that its groups are summed to.
void find_offset_scales(Graph& graph) {
  for (const Operation& operation : graph.operations) {
    if (operation.kind != Kind::reduction) continue;
    Tensor& all = graph.tensors[static_cast<size_t>(operation.x)];
    const Tensor& sums = graph.tensors[static_cast<size_t>(operation.y)];
    if (all.offsets != kNone && all.offsets == sums.offsets) all.offset_scale = all.dim[1] / sums.dim[1];
  }
}

// An index depends only on the size of its input.
bool is_shared(const Graph& graph, const Operation& operation) {
  if (operation.kind != Kind::pointwise || operation.mode == CUDNN_POINTWISE_GEN_INDEX) {
    return operation.kind == Kind::pointwise;
  }
  return std::ranges::all_of(operation.inputs(), [&](int input) {
    const Tensor& tensor = graph.tensors[static_cast<size_t>(input)];
    if (tensor.producer != kNone) return graph.operations[static_cast<size_t>(tensor.producer)].is_shared;
    return tensor.dim[1] == 1 && graph.heads > 1;
  });
}

void find_uses(Graph& graph) {
  for (Operation& operation : graph.operations) operation.is_shared = is_shared(graph, operation);
  std::vector<Operation*> last(graph.tensors.size());
  for (Operation& operation : graph.operations) {
    for (int input : operation.inputs()) last[static_cast<size_t>(input)] = &operation;
  }
  for (size_t i = 0; i < last.size(); ++i) {
    const int producer = graph.tensors[i].producer;
    if (producer == kNone) continue;
    Operation& source = graph.operations[static_cast<size_t>(producer)];
    if (last[i] == nullptr) last[i] = &source;
    // What all heads share is needed until the last head.
    const bool stays = source.is_shared && !last[i]->is_shared;
    if (!stays) last[i]->last_uses.push_back(static_cast<int>(i));
  }
}

}  // namespace

size_t Tensor::element_bytes() const {
  switch (type) {
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_INT64:
      return 8;
    case CUDNN_DATA_BOOLEAN:
      return 1;
    default:
      return 2;
  }
}

std::string Tensor::describe() const {
  return fmt::format("tensor {} ({} x {} x {} x {})", id, dim[0], dim[1], dim[2], dim[3]);
}

std::vector<int> Operation::inputs() const {
  std::vector<int> all;
  for (int input : {x, b, t, rows, cols, depth}) {
    if (input != kNone) all.push_back(input);
  }
  return all;
}

std::shared_ptr<const Graph> read_graph(const Descriptor& operation_graph) {
  auto graph = std::make_shared<Graph>();
  read_operations(operation_graph, *graph);
  sort(*graph);
  find_sizes(*graph);
  find_offset_scales(*graph);
  find_uses(*graph);
  return graph;
}

}  // namespace gradmill::paper::dnn
