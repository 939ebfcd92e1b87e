// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "paper_gpu/cudnn/graph.h"

namespace gradmill::paper::dnn {

// The addresses of a graph's tensors by their numbers; workspace_bytes() of limits.h from `workspace` on.
struct Pack {
  std::map<int64_t, void*> data;
  void* workspace = nullptr;
};

// Looks at the addresses before anything is computed. Memory that was not allocated is a fault. Returns why the graph
// cannot be computed at all; empty if it can.
std::string check(const Graph& graph, const Pack& pack);

// Computes the graph in fp32, one head of one sequence after the other. Each result is rounded to its tensor's type,
// virtual ones too. Tensors by value are copied when this is made, as a launch does.
class Execution {
 public:
  Execution(std::shared_ptr<const Graph> graph, const Pack& pack);
  void operator()() const;

 private:
  std::shared_ptr<const Graph> graph_;
  std::byte* workspace_;
  std::vector<std::byte*> data_;                                   // by indices of tensors
  std::vector<std::shared_ptr<std::array<std::byte, 8>>> values_;  // what data_ points to of tensors by value
};

}  // namespace gradmill::paper::dnn
