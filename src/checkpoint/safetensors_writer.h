// SPDX-License-Identifier: Apache-2.0
// Writer for safetensors files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor_view.h"
#include "files/output_file.h"

namespace gradmill {

// A contiguous tensor in host memory, and its name in the file. With `transposed`, a matrix (out, in) is stored as (in,
// out), as in GPT-2's files. A view without memory is written as zeros.
struct NamedTensor {
  std::string name;
  TensorView view;
  bool transposed = false;
};

// Writes the whole file with the metadata {"format":"pt"}. Tensors are in the reference writer's order (by dtype,
// widest first, then by name), so that each is aligned. Allocates at most a few MiB. Throws FileError if writing fails,
// and a data_error for files that no reader would accept: duplicate names or too many tensors.
void write_safetensors(OutputFile& file, const std::vector<NamedTensor>& tensors);

// A tensor whose bytes are produced during writing: `append` must write exactly the bytes of its dtype and shape.
struct StreamedTensor {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<int64_t> dims;
  std::function<void(OutputFile& file)> append;

  uint64_t bytes() const;
};
// Writes the same file from such tensors.
void write_safetensors(OutputFile& file, const std::vector<StreamedTensor>& tensors);

// The size of the file that write_safetensors would write.
uint64_t safetensors_bytes(const std::vector<NamedTensor>& tensors);

}  // namespace gradmill
