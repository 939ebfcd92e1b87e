// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "paper_gpu/cudnn/graph.h"

namespace gradmill::paper::dnn {

// The addresses of a graph's tensors by their numbers. The workspace has workspace_bytes() of limits.h bytes.
struct Pack {
  std::map<int64_t, void*> data;
  void* workspace = nullptr;
};

// Checks the addresses before the computation. Memory outside allocations is a fault. Returns why the graph cannot be
// computed at all; empty if it can.
std::string check(const Graph& graph, const Pack& pack);

// Computes the graph in fp32, one head of one sequence at a time. Each result, even of a virtual tensor, is rounded to
// its tensor's type. Tensors passed by value are copied by the constructor, as by a launch.
class Execution {
 public:
  Execution(std::shared_ptr<const Graph> graph, const Pack& pack);
  void operator()() const;

 private:
  std::shared_ptr<const Graph> graph_;
  std::byte* workspace_;
  std::vector<std::byte*> data_;                                   // by tensor index
  std::vector<std::shared_ptr<std::array<std::byte, 8>>> values_;  // the targets of data_ for tensors passed by value
};

}  // namespace gradmill::paper::dnn
