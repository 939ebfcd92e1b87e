// SPDX-License-Identifier: Apache-2.0
// Reader for safetensors files: tensors by name, directly from the mapped file. Nothing in the file is trusted.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/storage.h"
#include "core/tensor_view.h"
#include "files/mapped_file.h"

namespace gradmill {

// The most tensors that a file may have.
inline constexpr size_t kMaxTensors = 100'000;

// The format's name for a dtype.
std::string_view safetensors_name(DType dtype);

// The constructor checks the whole header: its tensors must cover the data exactly, without gaps or overlaps, and names
// must be unique. Views stay valid as long as the object exists, even if it is moved. Not thread-safe.
class SafeTensors {
 public:
  // Throws a data_error that names the file and, if possible, the tensor.
  explicit SafeTensors(const std::filesystem::path& path);

  bool contains(std::string_view name) const;
  // A contiguous view, aligned for its dtype. Its memory must NOT be written: the mapping is read-only, and a write
  // kills the process. A scalar has shape (1). Throws a data_error that names the tensor if it is absent, has too many
  // dimensions, or has a dtype that gradmill does not compute with. (Files may contain unused buffers of such types,
  // like I64 or BOOL.)
  TensorView at(std::string_view name) const;
  // Copies at(name) into `destination`, which must be contiguous and have the same dtype and shape. With `transposed`,
  // the file contains (in, out) and the destination is (out, in). Unlike reading the view, this keeps none of the
  // file's pages in memory, so loading needs no memory besides the destination.
  void copy_to(std::string_view name, const TensorView& destination, bool transposed = false) const;
  // A tensor as stored in the file, with any dtype. Its bytes need not be aligned.
  struct Stored {
    std::string_view dtype;  // the format's name
    std::vector<int64_t> dims;
    std::span<const std::byte> bytes;
  };
  const Stored& stored(size_t index) const { return tensors_[index].stored; }
  // To be called after a view's or `stored` bytes were read and before what was read is used. Throws a data_error when
  // the file became shorter, or could not be read, since it was opened.
  void check() const { file_.check(); }
  // Pages of `stored` bytes that are no longer needed.
  void release(std::span<const std::byte> bytes) const { file_.release(bytes); }
  // The names of all tensors, sorted.
  const std::vector<std::string>& names() const { return names_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  struct Tensor {
    Stored stored;
    mutable TensorView view;
    std::string refusal;  // why at() refuses this tensor; empty if it does not
  };

  void read_header();
  void align(const Tensor& tensor) const;
  // Returns the index into names_ and tensors_, or names_.size() if there is none.
  size_t find(std::string_view name) const;

  std::string path_;
  MappedFile file_;
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
  mutable std::vector<Storage> aligned_copies_;  // aligned copies of unaligned tensors, made on request
  std::map<std::string, std::string> metadata_;
};

}  // namespace gradmill
