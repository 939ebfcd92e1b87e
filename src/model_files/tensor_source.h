// SPDX-License-Identifier: Apache-2.0
// TensorSource: a model's tensors under Hugging Face's names, whatever their origin and format.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace gradmill {

struct SourceTensor {
  std::string name;
  std::vector<int64_t> dims;   // C order; empty: one value
  std::string type;            // as the file names it: "BF16", "Q4_K"
  std::optional<DType> dtype;  // the type that holds its values exactly: fp32, bf16 or fp16
  bool readable = true;        // false: its type cannot be that of weights
  bool swapped = false;        // stored as (out, in) where the family's files have (in, out), or the reverse
  std::string file;            // for messages

  int64_t numel() const;
  int64_t cols() const { return dims.empty() ? 1 : dims.back(); }
  int64_t rows() const { return cols() == 0 ? 0 : numel() / cols(); }
};

// Not thread-safe.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  virtual const std::vector<SourceTensor>& tensors() const = 0;
  // Rows [begin, end) of a readable tensor as fp32; leading dimensions count as rows. What was read is not kept in
  // memory.
  virtual void read_rows(size_t index, int64_t begin, int64_t end, float* out) const = 0;

  // The index of the tensor, if there is one.
  std::optional<size_t> find(std::string_view name) const;
  // Passes on rows from read_rows, a few MiB at a time, after checking each value: if one is not finite, throws a
  // data_error that names file, tensor and place.
  template <class Use>  // use(first row, number of rows, values)
  void visit_rows(size_t index, Use&& use) const {
    const SourceTensor& tensor = tensors()[index];
    const int64_t rows = tensor.rows(), block = rows_at_once(tensor.cols());
    std::vector<float> values;
    for (int64_t row = 0; row < rows; row += block) {
      const int64_t count = std::min(block, rows - row);
      values.resize(static_cast<size_t>(count * tensor.cols()));
      read_rows(index, row, row + count, values.data());
      check_finite(tensor, row, values);
      use(row, count, values.data());
    }
  }

  // The check that visit_rows does, for classes that read rows themselves.
  static void check_finite(const SourceTensor& tensor, int64_t first_row, const std::vector<float>& values);

 private:
  static int64_t rows_at_once(int64_t cols);
};

// "(2, 3)"
std::string shape_text(const std::vector<int64_t>& dims);

}  // namespace gradmill
