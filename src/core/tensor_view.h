// SPDX-License-Identifier: Apache-2.0
// TensorView: a cheap, non-owning view of a matrix-like tensor.
#pragma once

#include <cassert>

#include "core/dtype.h"
#include "core/shape.h"

namespace gradmill {

// The last dimension is contiguous and rows are row_stride elements apart. So a range of columns in a packed buffer,
// such as q, k or v of a fused projection, is also a view. During a dry run `data` is null and only the shape counts:
// to see whether an optional tensor was given, ask defined(), not data.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::fp32;
  Shape shape;
  int64_t row_stride = 0;

  TensorView() = default;
  TensorView(void* pointer, DType type, const Shape& dims)
      : data(pointer), dtype(type), shape(dims), row_stride(dims.rank() ? dims[dims.rank() - 1] : 0) {}

  bool defined() const { return shape.rank() > 0; }
  int64_t numel() const { return shape.numel(); }
  int64_t cols() const { return shape[shape.rank() - 1]; }
  int64_t rows() const { return cols() == 0 ? 0 : numel() / cols(); }
  size_t bytes() const { return static_cast<size_t>(numel()) * size_of(dtype); }
  bool contiguous() const { return row_stride == cols(); }

  template <class T>
  T* ptr() const {
    assert(dtype == dtype_of<T>);
    return static_cast<T*>(data);
  }
  template <class T>
  T* row(int64_t index) const {
    return ptr<T>() + index * row_stride;
  }

  TensorView slice_rows(int64_t begin, int64_t end) const {
    assert(shape.rank() == 1 ? contiguous() : shape.rank() == 2);
    assert(0 <= begin && begin <= end && end <= shape[0]);
    TensorView view = *this;
    view.shape = shape.rank() == 1 ? Shape{end - begin} : Shape{end - begin, cols()};
    view.data = offset(begin * (shape.rank() == 1 ? 1 : row_stride));
    if (shape.rank() == 1) view.row_stride = end - begin;
    return view;
  }
  TensorView slice_cols(int64_t begin, int64_t end) const {
    assert(shape.rank() == 2 && 0 <= begin && begin <= end && end <= cols());
    TensorView view = *this;
    view.shape = Shape{shape[0], end - begin};
    view.data = offset(begin);
    return view;
  }
  // The same view, moved on by this many elements.
  TensorView shifted(int64_t elements) const {
    TensorView view = *this;
    view.data = offset(elements);
    return view;
  }
  TensorView reshape(const Shape& dims) const {
    assert(contiguous() && dims.numel() == numel());
    return TensorView(data, dtype, dims);
  }

 private:
  void* offset(int64_t elements) const {
    if (data == nullptr) return nullptr;
    return static_cast<std::byte*>(data) + elements * static_cast<int64_t>(size_of(dtype));
  }
};

}  // namespace gradmill
