// SPDX-License-Identifier: Apache-2.0
// Reads and writes GPU memory: element types, strides, offsets of ragged tensors. Checks exactly the elements that are
// accessed: reading unwritten memory is a fault.
#pragma once

#include <string>

#include "paper_gpu/cudnn/graph.h"
#include "paper_gpu/cudnn/slice.h"

namespace gradmill::paper::dnn {

// Rounds to the nearest value of the tensor's type.
void round_to(cudnnDataType_t type, float* values, int64_t count);

// The tensors of a graph in memory.
class Access {
 public:
  // `data` is indexed by tensor; null for virtual tensors.
  Access(const Graph& graph, std::vector<std::byte*> data) : graph_(graph), data_(std::move(data)) {}

  // Element `at` of a tensor of integers.
  int64_t integer(int tensor, int64_t at);
  Slice load(int tensor, int64_t sequence, int64_t head, BufferPool& pool);
  // The slice must already be rounded to the tensor's type.
  void store(int tensor, int64_t sequence, int64_t head, const Slice& slice);

 private:
  // One head of one sequence in memory. Strides are in elements.
  struct Window {
    std::byte* begin = nullptr;
    int64_t rows = 0, cols = 0, row_stride = 0, col_stride = 0;
  };
  Window window(int tensor, int64_t sequence, int64_t head);
  // False if the elements must not be accessed.
  bool expect(bool read, int tensor, int64_t sequence, int64_t head, const void* data, int64_t elements);
  const Tensor& at(int tensor) const { return graph_.tensors[static_cast<size_t>(tensor)]; }

  const Graph& graph_;
  const std::vector<std::byte*> data_;
  std::vector<int> bad_;  // tensors with a reported fault; one report per tensor is enough
};

}  // namespace gradmill::paper::dnn
