// SPDX-License-Identifier: Apache-2.0
// Writer for safetensors files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor_view.h"
#include "files/output_file.h"

namespace gradmill {

// A contiguous tensor in host memory under the name the file gives it. With `transposed`, a matrix (out, in) is stored
// as (in, out), as GPT-2's files want it. A view without memory stands for zeros.
struct NamedTensor {
  std::string name;
  TensorView view;
  bool transposed = false;
};

// Writes the whole file, with the metadata {"format":"pt"} and in the reference writer's order (dtype, widest first,
// then name), so that every tensor lies aligned. Needs at most a few MiB of memory of its own. Names must be unique.
// Throws FileError, and data_error for what no reader would take: a name twice, or too many tensors.
void write_safetensors(OutputFile& file, const std::vector<NamedTensor>& tensors);

// A tensor whose bytes are made while they are written: `append` must write exactly those of its dtype and shape.
struct StreamedTensor {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<int64_t> dims;
  std::function<void(OutputFile& file)> append;

  uint64_t bytes() const;
};
// The same file of them.
void write_safetensors(OutputFile& file, const std::vector<StreamedTensor>& tensors);

// The size that such a file has.
uint64_t safetensors_bytes(const std::vector<NamedTensor>& tensors);

}  // namespace gradmill
