// SPDX-License-Identifier: Apache-2.0
// The file consists of a u64 header size, a JSON header padded to 8 bytes, and the data.
#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "checkpoint/safetensors.h"
#include "files/strict_json.h"

namespace gradmill {
namespace {

constexpr size_t kWriteBlockBytes = size_t{1} << 20;

using Order = std::vector<const StreamedTensor*>;

Order file_order(const std::vector<StreamedTensor>& tensors) {
  if (tensors.size() > kMaxTensors) {
    throw data_error(fmt::format("{} tensors in one file; readers take {}", tensors.size(), kMaxTensors),
                     "use several files");
  }
  Order order;
  std::set<std::string_view> names{"__metadata__"};
  for (const StreamedTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw data_error(fmt::format("two tensors are named {}", quote_for_message(tensor.name)), "rename one of them");
    }
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const StreamedTensor* a, const StreamedTensor* b) {
    const auto key = [](const StreamedTensor* tensor) {
      // Within one width, our enum lists the types in the order of the reference writer.
      return std::tuple<int, DType, const std::string&>(-static_cast<int>(size_of(tensor->dtype)), tensor->dtype,
                                                        tensor->name);
    };
    return key(a) < key(b);
  });
  return order;
}

std::string header_text(const Order& order) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  uint64_t offset = 0;
  for (const StreamedTensor* tensor : order) {
    std::string dims;
    for (const int64_t dim : tensor->dims) dims += fmt::format("{}{}", dims.empty() ? "" : ",", dim);
    const uint64_t end = offset + tensor->bytes();
    text += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        nlohmann::json(tensor->name).dump(), safetensors_name(tensor->dtype), dims, offset, end);
    offset = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

std::span<const std::byte> bytes_of(const TensorView& view) {
  return {static_cast<const std::byte*>(view.data), view.bytes()};
}

// Copies columns [begin, end) of a matrix to rows.
template <class Word>
void gather_columns(const TensorView& matrix, int64_t begin, int64_t end, std::byte* out) {
  const int64_t rows = matrix.shape[0], cols = matrix.shape[1];
  const auto* words = static_cast<const Word*>(matrix.data);
  auto* gathered = reinterpret_cast<Word*>(out);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = begin; col < end; ++col) gathered[(col - begin) * rows + row] = words[row * cols + col];
  }
}

void append_transposed(OutputFile& file, const TensorView& matrix) {
  if (matrix.numel() == 0) return;
  const size_t column_bytes = static_cast<size_t>(matrix.shape[0]) * size_of(matrix.dtype);
  const auto block = static_cast<int64_t>(std::max<size_t>(1, kWriteBlockBytes / column_bytes));
  const int64_t cols = matrix.shape[1];
  const Storage buffer(static_cast<size_t>(std::min(block, cols)) * column_bytes);
  for (int64_t begin = 0; begin < cols; begin += block) {
    const int64_t end = std::min(begin + block, cols);
    std::byte* out = buffer.bytes().data();
    if (size_of(matrix.dtype) == 1) gather_columns<uint8_t>(matrix, begin, end, out);
    if (size_of(matrix.dtype) == 2) gather_columns<uint16_t>(matrix, begin, end, out);
    if (size_of(matrix.dtype) == 4) gather_columns<uint32_t>(matrix, begin, end, out);
    file.append(buffer.bytes().first(static_cast<size_t>(end - begin) * column_bytes));
  }
}

void append_zeros(OutputFile& file, size_t bytes) {
  const std::vector<std::byte> zeros(std::min(bytes, kWriteBlockBytes));
  for (size_t done = 0; done < bytes; done += zeros.size()) {
    file.append(std::span(zeros).first(std::min(zeros.size(), bytes - done)));
  }
}

void append_view(OutputFile& file, const TensorView& view, bool transposed) {
  if (view.data == nullptr) return append_zeros(file, view.bytes());
  transposed ? append_transposed(file, view) : file.append(bytes_of(view));
}

// The results refer to the views in `tensors`.
std::vector<StreamedTensor> streamed(const std::vector<NamedTensor>& tensors) {
  std::vector<StreamedTensor> result;
  for (const NamedTensor& tensor : tensors) {
    const TensorView& view = tensor.view;
    assert(view.contiguous());
    assert(!tensor.transposed || view.shape.rank() == 2);
    StreamedTensor& made = result.emplace_back();
    made.name = tensor.name;
    made.dtype = view.dtype;
    for (int axis = 0; axis < view.shape.rank(); ++axis) made.dims.push_back(view.shape[axis]);
    if (tensor.transposed) std::reverse(made.dims.begin(), made.dims.end());
    made.append = [&view, transposed = tensor.transposed](OutputFile& file) { append_view(file, view, transposed); };
  }
  return result;
}

}  // namespace

uint64_t StreamedTensor::bytes() const {
  uint64_t count = size_of(dtype);
  for (const int64_t dim : dims) count *= static_cast<uint64_t>(dim);
  return count;
}

void write_safetensors(OutputFile& file, const std::vector<StreamedTensor>& tensors) {
  const Order order = file_order(tensors);
  const std::string header = header_text(order);
  const uint64_t header_bytes = header.size();
  file.append(std::as_bytes(std::span(&header_bytes, 1)));
  file.append(header);
  for (const StreamedTensor* tensor : order) tensor->append(file);
}

void write_safetensors(OutputFile& file, const std::vector<NamedTensor>& tensors) {
  write_safetensors(file, streamed(tensors));
}

uint64_t safetensors_bytes(const std::vector<NamedTensor>& tensors) {
  uint64_t bytes = sizeof(uint64_t) + header_text(file_order(streamed(tensors))).size();
  for (const NamedTensor& tensor : tensors) bytes += tensor.view.bytes();
  return bytes;
}

}  // namespace gradmill
