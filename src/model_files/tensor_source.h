// SPDX-License-Identifier: Apache-2.0
// TensorSource: a model's tensors under Hugging Face's names, wherever they come from and however they are stored.
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
  std::optional<DType> dtype;  // in which its values are written again bit for bit: fp32, bf16 or fp16
  bool readable = true;        // false: no type of numbers that weights can have
  bool swapped = false;        // lies as (out, in) where the family's files have (in, out), or the other way round
  std::string file;            // for messages

  int64_t numel() const;
  int64_t cols() const { return dims.empty() ? 1 : dims.back(); }
  int64_t rows() const { return cols() == 0 ? 0 : numel() / cols(); }
};

// One thread at a time.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  virtual const std::vector<SourceTensor>& tensors() const = 0;
  // Rows [begin, end) as fp32, of a readable tensor; leading dimensions count as rows. What was read takes no memory
  // afterwards.
  virtual void read_rows(size_t index, int64_t begin, int64_t end, float* out) const = 0;

  // The index, or nothing.
  std::optional<size_t> find(std::string_view name) const;
  // Rows as read_rows gives them, a few MiB at a time, each value checked: one that is not finite is a data_error that
  // names file, tensor and place.
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

  // As visit_rows does it, for who reads rows itself.
  static void check_finite(const SourceTensor& tensor, int64_t first_row, const std::vector<float>& values);

 private:
  static int64_t rows_at_once(int64_t cols);
};

// "(2, 3)"
std::string shape_text(const std::vector<int64_t>& dims);

}  // namespace gradmill
