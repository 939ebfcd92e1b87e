// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cudnn/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paper_gpu/cudnn/access.h"
#include "paper_gpu/cudnn/kernels.h"
#include "paper_gpu/cudnn/limits.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/shadow.h"

namespace gradmill::paper::dnn {
namespace {

size_t index(int tensor) { return static_cast<size_t>(tensor); }

class Interpreter {
 public:
  Interpreter(const Graph& graph, const std::vector<std::byte*>& data)
      : graph_(graph), access_(graph, data), slices_(graph.tensors.size()), places_(graph.tensors.size()) {}

  void run() {
    for (sequence_ = 0; sequence_ < graph_.sequences; ++sequence_) {
      for (head_ = 0; head_ < graph_.heads; ++head_) {
        for (const Operation& operation : graph_.operations) {
          if (operation.is_shared && head_ > 0) continue;
          compute(operation);
          for (int last : operation.last_uses) release(last);
        }
      }
    }
  }

 private:
  struct Place {
    int64_t sequence = -1, head = -1;
    bool operator==(const Place&) const = default;
  };

  const Tensor& at(int tensor) const { return graph_.tensors[index(tensor)]; }

  // Inputs are loaded on first use and kept for the heads that share them.
  const Slice& input(int tensor) {
    const Tensor& t = at(tensor);
    Slice& slice = slices_[index(tensor)];
    const Place place{sequence_, graph_.head_of(t, head_)};
    if (t.producer == kNone && places_[index(tensor)] != place) {
      pool_.give_back(std::move(slice.buffer));
      slice = access_.load(tensor, sequence_, place.head, pool_);
      places_[index(tensor)] = place;
    }
    return slice;
  }

  Slice& result(int tensor, int64_t rows, int64_t cols) {
    Slice& slice = slices_[index(tensor)];
    release(tensor);
    slice = {.rows = rows, .cols = cols, .buffer = pool_.take(static_cast<size_t>(rows * cols))};
    return slice;
  }

  // A sum over heads has no slice of its own until the last head.
  void release(int tensor) {
    if (!is_unfinished_sum(tensor)) pool_.give_back(std::exchange(slices_[index(tensor)].buffer, {}));
  }

  int64_t heads_per_group(int tensor) const { return graph_.heads / at(tensor).dim[1]; }
  bool is_sum_of_heads(const Operation& operation) const {
    return operation.kind == Kind::reduction && at(operation.x).dim[1] != at(operation.y).dim[1];
  }
  bool is_unfinished_sum(int tensor) const {
    const int producer = at(tensor).producer;
    return producer != kNone && is_sum_of_heads(graph_.operations[index(producer)]) &&
           (head_ + 1) % heads_per_group(tensor) != 0;
  }

  void compute(const Operation& operation) {
    switch (operation.kind) {
      case Kind::product:
        multiply_inputs(operation);
        break;
      case Kind::pointwise:
        apply_to_inputs(operation);
        break;
      case Kind::reduction:
        reduce_input(operation);
        break;
      case Kind::transposition: {
        const Slice& x = input(operation.x);
        transpose(x, result(operation.y, x.cols, x.rows));
        break;
      }
    }
    if (!is_unfinished_sum(operation.y)) finish(operation.y);
  }

  void finish(int tensor) {
    const Tensor& t = at(tensor);
    Slice& slice = slices_[index(tensor)];
    round_to(t.type, slice.row(0), slice.rows * slice.cols);
    if (!t.is_virtual) access_.store(tensor, sequence_, graph_.head_of(t, head_), slice);
  }

  // The sequence's own size, if the product has a tensor with sizes.
  int64_t limited(int64_t size, int lengths, const Tensor& tensor) {
    if (lengths == kNone) return size;
    const int64_t length = access_.integer(lengths, sequence_);
    if (length < 0 || length > size) {
      complain(fmt::format("cuDNN: sequence {} has the length {}, but {} holds {} of it", sequence_, length,
                           tensor.describe(), size));
    }
    return std::clamp<int64_t>(length, 0, size);
  }

  void multiply_inputs(const Operation& operation) {
    const Slice &a = input(operation.x), &b = input(operation.b);
    const int64_t rows = limited(a.rows, operation.rows, at(operation.x));
    const int64_t cols = limited(b.cols, operation.cols, at(operation.b));
    const int64_t depth = limited(std::min(a.cols, b.rows), operation.depth, at(operation.b));
    if (operation.depth == kNone && a.cols != b.rows) complain("cuDNN: sequences of a product have different lengths");
    multiply(a, b, depth, result(operation.y, rows, cols));
  }

  Operand operand(int tensor, const Tensor& y) {
    if (tensor == kNone) return {};
    const Tensor& t = at(tensor);
    return {
        .slice = &input(tensor), .one_row = t.dim[2] == 1 && y.dim[2] != 1, .one_col = t.dim[3] == 1 && y.dim[3] != 1};
  }

  void apply_to_inputs(const Operation& operation) {
    const Tensor& y = at(operation.y);
    const Operand x = operand(operation.x, y), b = operand(operation.b, y), t = operand(operation.t, y);
    int64_t rows = y.dim[2], cols = y.dim[3];
    for (const Operand* each : {&x, &b, &t}) {
      if (each->slice == nullptr) continue;
      if (!each->one_row) rows = std::min(rows, each->slice->rows);
      if (!each->one_col) cols = std::min(cols, each->slice->cols);
    }
    expect_same_cols({&x, &b, &t}, rows, cols);
    Slice& made = result(operation.y, rows, cols);
    if (operation.mode == CUDNN_POINTWISE_GEN_INDEX) return fill_index(operation.axis, made);
    apply(operation.mode, x, b, t, made);
  }

  void expect_same_cols(std::initializer_list<const Operand*> operands, int64_t rows, int64_t cols) {
    for (const Operand* each : operands) {
      if (each->slice == nullptr || rows == 0 || each->one_col || each->slice->cols == cols) continue;
      complain("cuDNN: sequences of a pointwise operation have different lengths");
    }
  }

  void reduce_input(const Operation& operation) {
    const Slice& x = input(operation.x);
    if (is_sum_of_heads(operation)) {
      if (head_ % heads_per_group(operation.y) == 0) {
        Slice& sum = slices_[index(operation.y)];
        pool_.give_back(std::exchange(sum.buffer, {}));
        sum = {.rows = x.rows, .cols = x.cols, .buffer = pool_.take(static_cast<size_t>(x.rows * x.cols))};
        std::copy_n(x.row(0), x.rows * x.cols, sum.row(0));
      } else {
        add(x, slices_[index(operation.y)]);
      }
      return;
    }
    Slice& made = result(operation.y, x.rows, 1);
    operation.reduction == CUDNN_REDUCE_TENSOR_ADD ? sum_rows(x, made) : max_rows(x, made);
  }

  // Reports only the first problem, because others follow from it.
  void complain(const std::string& what) {
    if (!std::exchange(complained_, true)) fault(what);
  }

  const Graph& graph_;
  Access access_;
  BufferPool pool_;
  std::vector<Slice> slices_;  // by tensor index
  std::vector<Place> places_;  // for inputs: the part of the tensor that the slice contains
  int64_t sequence_ = 0, head_ = 0;
  bool complained_ = false;
};

// Overwrites the workspace, so that data kept there is lost.
void overwrite(std::byte* workspace, int64_t bytes) {
  constexpr int64_t kMost = 1 << 16;
  const auto size = static_cast<size_t>(std::min(bytes, kMost));
  if (why_not_written(reinterpret_cast<uint64_t>(workspace), size).empty()) std::memset(workspace, 0xff, size);
}

}  // namespace

Execution::Execution(std::shared_ptr<const Graph> graph, const Pack& pack)
    : graph_(std::move(graph)), workspace_(static_cast<std::byte*>(pack.workspace)) {
  for (const Tensor& tensor : graph_->tensors) {
    const auto found = pack.data.find(tensor.id);
    auto* data = static_cast<std::byte*>(found == pack.data.end() ? nullptr : found->second);
    if (tensor.by_value) {
      values_.push_back(std::make_shared<std::array<std::byte, 8>>());
      std::memcpy(values_.back()->data(), data, tensor.element_bytes());
      data = values_.back()->data();
    }
    data_.push_back(data);
  }
}

void Execution::operator()() const {
  note_inexact("attention of cuDNN");
  overwrite(workspace_, workspace_bytes(*graph_));
  Interpreter(*graph_, data_).run();
}

}  // namespace gradmill::paper::dnn
