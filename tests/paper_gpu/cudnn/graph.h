// SPDX-License-Identifier: Apache-2.0
// cudnn-frontend's form of attention: a graph of products, reductions and pointwise operations, about 20 for the
// forward and 30 for the backward. Most of its tensors are virtual: the library keeps them on the chip.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "paper_gpu/cudnn/descriptor.h"

namespace gradmill::paper::dnn {

constexpr int kNone = -1;  // in place of a tensor's index

// The dimensions are sequences, heads, rows and columns. Strides are in elements.
struct Tensor {
  int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::array<int64_t, 4> dim{}, stride{};
  int64_t alignment = 1;  // of its address, in bytes
  bool is_virtual = false;
  bool by_value = false;  // one element in host memory, read when the plan is executed
  int offsets = kNone;    // the tensor with the start of each sequence, in elements
  int64_t offset_scale = 1;
  int producer = kNone;  // the operation that computes it

  size_t element_bytes() const;
  bool is_narrow() const { return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16; }
  // The dimension along which a sequence is stored: rows or, in a transposed tensor, columns.
  int sequence_axis() const { return dim[3] > 1 && stride[3] > stride[2] ? 3 : 2; }
  std::string describe() const;
};

enum class Kind { product, pointwise, reduction, transposition };

struct Operation {
  Kind kind = Kind::pointwise;
  int x = kNone, b = kNone, t = kNone;            // inputs; for a product x and b
  int y = kNone;                                  // output
  int rows = kNone, cols = kNone, depth = kNone;  // for a product: tensors with the sizes of each sequence
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
  cudnnReduceTensorOp_t reduction = CUDNN_REDUCE_TENSOR_ADD;
  int64_t axis = 0;  // for CUDNN_POINTWISE_GEN_INDEX
  // The same for all heads of a sequence, for example a mask.
  bool is_shared = false;
  // Results that no later operation needs.
  std::vector<int> last_uses;

  std::vector<int> inputs() const;
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;  // each after those whose results it needs
  int64_t sequences = 1, heads = 1;

  // The head of `tensor` that belongs to query head `head`.
  int64_t head_of(const Tensor& tensor, int64_t head) const { return head / (heads / tensor.dim[1]); }
};

// Throws std::runtime_error for descriptors that the paper GPU does not support.
std::shared_ptr<const Graph> read_graph(const Descriptor& operation_graph);

}  // namespace gradmill::paper::dnn
