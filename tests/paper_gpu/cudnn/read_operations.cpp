// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cudnn/read_operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace gradmill::paper::dnn {
namespace {

[[noreturn]] void unknown(const std::string& what) { throw std::runtime_error(what + " is not on paper"); }

bool is_known(cudnnDataType_t type) {
  constexpr cudnnDataType_t kKnown[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF,  CUDNN_DATA_BFLOAT16,
                                        CUDNN_DATA_INT32, CUDNN_DATA_INT64, CUDNN_DATA_BOOLEAN};
  return std::ranges::find(kKnown, type) != std::end(kKnown);
}

class Reader {
 public:
  explicit Reader(Graph& graph) : graph_(graph) {}

  Operation read(const Descriptor& descriptor) {
    switch (descriptor.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return read_product(descriptor);
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return read_pointwise(descriptor);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return read_reduction(descriptor);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return read_transposition(descriptor);
      default:
        unknown(fmt::format("cuDNN's operation {}", int(descriptor.type)));
    }
  }

 private:
  const Tensor& at(int index) const { return graph_.tensors[static_cast<size_t>(index)]; }

  // Tensors are identified by their numbers.
  int tensor(const std::shared_ptr<Descriptor>& descriptor) {
    if (descriptor == nullptr) return kNone;
    const auto id = descriptor->value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    if (const auto found = indices_.find(id); found != indices_.end()) return found->second;
    Tensor made = describe(*descriptor);
    made.id = id;
    made.offsets = tensor(descriptor->child(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC));
    graph_.tensors.push_back(made);
    return indices_[id] = static_cast<int>(graph_.tensors.size()) - 1;
  }

  static Tensor describe(const Descriptor& descriptor) {
    Tensor made;
    const auto dims = descriptor.values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
    const auto strides = descriptor.values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
    if (dims.size() != made.dim.size() || strides.size() != made.stride.size()) {
      unknown(fmt::format("cuDNN's tensor of {} dimensions", dims.size()));
    }
    std::ranges::copy(dims, made.dim.begin());
    std::ranges::copy(strides, made.stride.begin());
    made.type = descriptor.value(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
    if (!is_known(made.type)) unknown(fmt::format("cuDNN's data type {}", int(made.type)));
    made.alignment = descriptor.value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
    made.is_virtual = descriptor.flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    made.by_value = descriptor.flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    return made;
  }

  Operation read_product(const Descriptor& from) {
    const auto options = from.child(CUDNN_ATTR_OPERATION_MATMUL_DESC);
    if (options->value(CUDNN_ATTR_MATMUL_PADDING_VALUE, 0.0) != 0) unknown("padding of products");
    Operation made;
    made.kind = Kind::product;
    made.x = tensor(from.child(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    made.b = tensor(from.child(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    made.y = tensor(from.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    made.rows = tensor(from.child(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC));
    made.cols = tensor(from.child(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC));
    made.depth = tensor(from.child(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC));
    const auto &a = at(made.x).dim, &b = at(made.b).dim, &c = at(made.y).dim;
    if (a[2] != c[2] || b[3] != c[3] || a[3] != b[2]) throw std::runtime_error("a product's matrices do not fit");
    return made;
  }

  Operation read_pointwise(const Descriptor& from) {
    const auto options = from.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    Operation made;
    made.kind = Kind::pointwise;
    made.mode = options->value(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_IDENTITY);
    made.axis = options->value<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
    made.x = tensor(from.child(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    made.b = tensor(from.child(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
    made.t = tensor(from.child(CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
    made.y = tensor(from.child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    if (made.x == kNone || made.y == kNone) unknown(fmt::format("a gradient of pointwise mode {}", int(made.mode)));
    if (from.value(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1.0f) != 1 ||
        from.value(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1.0f) != 1) {
      unknown("a factor of a pointwise operation");
    }
    for (int input : made.inputs()) {
      for (size_t axis = 0; axis < 4; ++axis) {
        const int64_t size = at(input).dim[axis], wanted = at(made.y).dim[axis];
        const bool fits = size == wanted || size == 1 || (axis == 1 && wanted % size == 0);
        if (!fits) throw std::runtime_error("sizes of a pointwise operation do not fit: " + at(input).describe());
      }
    }
    return made;
  }

  Operation read_reduction(const Descriptor& from) {
    Operation made;
    made.kind = Kind::reduction;
    made.x = tensor(from.child(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    made.y = tensor(from.child(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    made.reduction =
        from.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)->value(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_REDUCE_TENSOR_ADD);
    if (made.reduction != CUDNN_REDUCE_TENSOR_ADD && made.reduction != CUDNN_REDUCE_TENSOR_MAX) {
      unknown(fmt::format("cuDNN's reduction {}", int(made.reduction)));
    }
    const auto &x = at(made.x).dim, &y = at(made.y).dim;
    const bool of_rows = x[1] == y[1] && x[2] == y[2] && y[3] == 1;
    const bool of_heads = x[1] > y[1] && x[1] % y[1] == 0 && x[2] == y[2] && x[3] == y[3];
    if (x[0] != y[0] || !(of_rows || (of_heads && made.reduction == CUDNN_REDUCE_TENSOR_ADD))) {
      unknown("a reduction to " + at(made.y).describe());
    }
    return made;
  }

  // The same elements with rows and columns exchanged.
  Operation read_transposition(const Descriptor& from) {
    Operation made;
    made.kind = Kind::transposition;
    made.x = tensor(from.child(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    made.y = tensor(from.child(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    const Tensor &x = at(made.x), &y = at(made.y);
    const auto turned = [](std::array<int64_t, 4> sizes) {
      std::swap(sizes[2], sizes[3]);
      return sizes;
    };
    if (y.dim != turned(x.dim) || y.stride != turned(x.stride)) unknown("a reshape to " + y.describe());
    return made;
  }

  Graph& graph_;
  std::map<int64_t, int> indices_;
};

}  // namespace

void read_operations(const Descriptor& operation_graph, Graph& graph) {
  const Attribute* const operations = operation_graph.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations == nullptr) throw std::runtime_error("a graph has no operations");
  Reader reader(graph);
  for (const auto& each : operations->descriptors) graph.operations.push_back(reader.read(*each));
}

}  // namespace gradmill::paper::dnn
