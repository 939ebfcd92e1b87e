// SPDX-License-Identifier: Apache-2.0
#include "model_files/tensor_source.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "files/strict_json.h"

namespace gradmill {

int64_t SourceTensor::numel() const {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

std::optional<size_t> TensorSource::find(std::string_view name) const {
  const std::vector<SourceTensor>& all = tensors();
  const auto place = std::lower_bound(
      all.begin(), all.end(), name, [](const SourceTensor& tensor, std::string_view key) { return tensor.name < key; });
  if (place == all.end() || place->name != name) return std::nullopt;
  return static_cast<size_t>(place - all.begin());
}

int64_t TensorSource::rows_at_once(int64_t cols) {
  constexpr int64_t kBlock = int64_t{1} << 20;  // values
  return std::max<int64_t>(1, kBlock / std::max<int64_t>(cols, 1));
}

void TensorSource::check_finite(const SourceTensor& tensor, int64_t first_row, const std::vector<float>& values) {
  // Only NaN and infinities have all exponent bits set. Without a branch the loop runs at the speed of memory.
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t bad = 0;
  for (const float value : values)
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(value) & kExponent) == kExponent);
  if (bad == 0) return;
  const auto place = std::find_if(values.begin(), values.end(), [](float value) {
    return (std::bit_cast<uint32_t>(value) & kExponent) == kExponent;
  });
  const int64_t index = place - values.begin();
  throw data_error(
      fmt::format("{}: tensor {}: the value in row {}, column {} is {}", tensor.file, quote_for_message(tensor.name),
                  first_row + index / tensor.cols(), index % tensor.cols(), *place),
      "the weights are damaged; fetch or export them again");
}

std::string shape_text(const std::vector<int64_t>& dims) {
  std::string text = "(";
  for (const int64_t dim : dims) text += fmt::format("{}{}", text.size() > 1 ? ", " : "", dim);
  return text + ")";
}

}  // namespace gradmill
