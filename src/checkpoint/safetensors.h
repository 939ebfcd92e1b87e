// SPDX-License-Identifier: Apache-2.0
// Reader for safetensors files: tensors by name, straight from the mapped file. Nothing in the file is trusted.
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

// The name that the format has for a dtype.
std::string_view safetensors_name(DType dtype);

// Opening checks the whole header: its tensors must cover the data exactly, without holes or overlaps, and no name may
// come twice. Views stay valid, also across moves, as long as the object lives. One thread at a time may use it.
class SafeTensors {
 public:
  // Throws data_error naming the file and, where there is one, the tensor.
  explicit SafeTensors(const std::filesystem::path& path);

  bool contains(std::string_view name) const;
  // A contiguous view, aligned for its dtype, of memory that must NOT be written (the mapping is read-only: a write
  // ends the process). A scalar has shape (1). Throws data_error naming the tensor when it is absent, has a dtype that
  // gradmill does not compute with (a file may well carry I64 or BOOL buffers nobody asks for), or too many dimensions.
  TensorView at(std::string_view name) const;
  // Copies at(name) into `destination`, which has the same dtype and shape and is contiguous. With `transposed` the
  // file holds (in, out) and the destination is (out, in). Unlike reading the view, this leaves none of the file's
  // pages in the process: loading takes no memory beside the destination.
  void copy_to(std::string_view name, const TensorView& destination, bool transposed = false) const;
  // A tensor as it lies in the file, whatever its dtype: bytes need not be aligned for it.
  struct Stored {
    std::string_view dtype;  // as the format names it
    std::vector<int64_t> dims;
    std::span<const std::byte> bytes;
  };
  const Stored& stored(size_t index) const { return tensors_[index].stored; }
  // To be called after a view's or `stored` bytes were read and before what was read is used. Throws a data_error when
  // the file became shorter, or could not be read, since it was opened.
  void check() const { file_.check(); }
  // Pages of `stored` bytes that are no longer needed.
  void release(std::span<const std::byte> bytes) const { file_.release(bytes); }
  // Sorted.
  const std::vector<std::string>& names() const { return names_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  struct Tensor {
    Stored stored;
    mutable TensorView view;
    std::string refusal;  // why at() cannot give it; empty when it can
  };

  void read_header();
  void align(const Tensor& tensor) const;
  // The index into names_ and tensors_, or names_.size().
  size_t find(std::string_view name) const;

  std::string path_;
  MappedFile file_;
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
  mutable std::vector<Storage> aligned_copies_;  // of tensors at odd addresses in the file, once they are asked for
  std::map<std::string, std::string> metadata_;
};

}  // namespace gradmill
