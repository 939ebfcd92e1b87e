// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cudnn/access.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <limits>

#include "core/dtype.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/shadow.h"

namespace gradmill::paper::dnn {
namespace {

constexpr float kNowhere = std::numeric_limits<float>::quiet_NaN();  // the result of reading missing memory

float to_float(float value) { return value; }
float to_float(int32_t value) { return static_cast<float>(value); }
float to_float(Bf16 value) { return static_cast<float>(value); }
struct Half {
  uint16_t bits;
};
float to_float(Half value) { return _cvtsh_ss(value.bits); }

void from_float(float value, float& to) { to = value; }
void from_float(float value, int32_t& to) { to = static_cast<int32_t>(value); }
void from_float(float value, Bf16& to) { to = Bf16(value); }
void from_float(float value, Half& to) { to.bits = _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }

// Calls body with an element of the tensor's type.
template <class Body>
void for_type(cudnnDataType_t type, const Body& body) {
  switch (type) {
    case CUDNN_DATA_BFLOAT16:
      return body(Bf16{});
    case CUDNN_DATA_HALF:
      return body(Half{});
    case CUDNN_DATA_INT32:
      return body(int32_t{});
    default:
      return body(float{});
  }
}

template <class Element>
void round_elements(float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Element rounded;
    from_float(values[i], rounded);
    values[i] = to_float(rounded);
  }
}

}  // namespace

void round_to(cudnnDataType_t type, float* values, int64_t count) {
  if (type == CUDNN_DATA_BFLOAT16) round_elements<Bf16>(values, count);
  if (type == CUDNN_DATA_HALF) round_elements<Half>(values, count);
}

int64_t Access::integer(int tensor, int64_t at) {
  const Tensor& described = this->at(tensor);
  const std::byte* const data =
      data_[static_cast<size_t>(tensor)] + static_cast<size_t>(at) * described.element_bytes();
  if (!expect(true, tensor, at, 0, data, 1)) return 0;
  if (described.type == CUDNN_DATA_INT64) return *reinterpret_cast<const int64_t*>(data);
  return *reinterpret_cast<const int32_t*>(data);
}

// Reported once per tensor, because more reports would add nothing.
bool Access::expect(bool read, int tensor, int64_t sequence, int64_t head, const void* data, int64_t elements) {
  if (at(tensor).by_value) return true;
  const size_t bytes = static_cast<size_t>(elements) * at(tensor).element_bytes();
  const auto address = reinterpret_cast<uint64_t>(data);
  if ((read ? why_not_read(address, bytes) : why_not_written(address, bytes)).empty()) return true;
  if (std::ranges::find(bad_, tensor) == bad_.end()) {
    bad_.push_back(tensor);
    const std::string what = fmt::format("cuDNN {} {}, sequence {}, head {}", read ? "reads" : "writes",
                                         at(tensor).describe(), sequence, head);
    read ? expect_readable(data, bytes, what) : expect_writable(data, bytes, what);
  }
  return read && why_not_written(address, bytes).empty();
}

Access::Window Access::window(int tensor, int64_t sequence, int64_t head) {
  const Tensor& t = at(tensor);
  Window found{.begin = data_[static_cast<size_t>(tensor)],
               .rows = t.dim[2],
               .cols = t.dim[3],
               .row_stride = t.stride[2],
               .col_stride = t.stride[3]};
  int64_t first = (t.dim[1] == 1 ? 0 : head * t.stride[1]);
  if (t.offsets == kNone) {
    first += t.dim[0] == 1 ? 0 : sequence * t.stride[0];
  } else {
    const int64_t begin = integer(t.offsets, sequence) * t.offset_scale;
    const int64_t end = integer(t.offsets, sequence + 1) * t.offset_scale;
    const auto axis = static_cast<size_t>(t.sequence_axis());
    const int64_t length = (end - begin) / t.stride[axis];
    int64_t& size = axis == 2 ? found.rows : found.cols;
    if (begin < 0 || end < begin || (end - begin) % t.stride[axis] != 0 || length > size) {
      fault(fmt::format("cuDNN's {}: sequence {} is said to lie from element {} to {}, in steps of {}", t.describe(),
                        sequence, begin, end, t.stride[axis]));
    }
    size = std::clamp<int64_t>(length, 0, size);
    first += begin;
  }
  found.begin += first * static_cast<int64_t>(t.element_bytes());
  return found;
}

Slice Access::load(int tensor, int64_t sequence, int64_t head, BufferPool& pool) {
  const Tensor& t = at(tensor);
  const Window from = window(tensor, sequence, head);
  Slice slice{.rows = from.rows, .cols = from.cols, .buffer = pool.take(static_cast<size_t>(from.rows * from.cols))};
  // In memory order: along the columns, or along the rows of a transposed tensor.
  const bool turned = from.col_stride != 1 && from.row_stride == 1;
  const int64_t outer = turned ? from.cols : from.rows, inner = turned ? from.rows : from.cols;
  const int64_t outer_stride = turned ? from.col_stride : from.row_stride;
  const int64_t inner_stride = turned ? from.row_stride : from.col_stride;
  const int64_t outer_step = turned ? 1 : slice.cols, inner_step = turned ? slice.cols : 1;
  for_type(t.type, [&]<class Element>(Element) {
    const auto* const data = reinterpret_cast<const Element*>(from.begin);
    for (int64_t o = 0; o < outer; ++o) {
      const Element* const run = data + o * outer_stride;
      float* const to = slice.row(0) + o * outer_step;
      bool there = inner_stride != 1 || expect(true, tensor, sequence, head, run, inner);
      for (int64_t i = 0; i < inner; ++i) {
        const Element* const element = run + i * inner_stride;
        if (inner_stride != 1) there = expect(true, tensor, sequence, head, element, 1);
        to[i * inner_step] = there ? to_float(*element) : kNowhere;
      }
    }
  });
  return slice;
}

void Access::store(int tensor, int64_t sequence, int64_t head, const Slice& slice) {
  const Tensor& t = at(tensor);
  const Window to = window(tensor, sequence, head);
  if (slice.rows > to.rows || slice.cols > to.cols) {
    fault(fmt::format("cuDNN's {}: sequence {} has {} x {} elements and room for {} x {}", t.describe(), sequence,
                      slice.rows, slice.cols, to.rows, to.cols));
  }
  const int64_t rows = std::min(slice.rows, to.rows), cols = std::min(slice.cols, to.cols);
  for_type(t.type, [&]<class Element>(Element) {
    auto* const data = reinterpret_cast<Element*>(to.begin);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols;) {
        // As many elements as are contiguous.
        const int64_t run = to.col_stride == 1 ? cols : 1;
        Element* const begin = data + r * to.row_stride + c * to.col_stride;
        if (!expect(false, tensor, sequence, head, begin, run)) return;
        for (int64_t i = 0; i < run; ++i) from_float(slice.row(r)[c + i], begin[i]);
        mark_written(begin, static_cast<size_t>(run) * sizeof(Element));
        c += run;
      }
    }
  });
}

}  // namespace gradmill::paper::dnn
