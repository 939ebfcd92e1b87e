// SPDX-License-Identifier: Apache-2.0
// GGUF: header, key-value pairs, tensor entries, aligned data. Every length is checked against the remaining bytes.
#include "model_files/gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "files/strict_json.h"

namespace gradmill {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are used without conversion");

constexpr uint64_t kMostTensors = 100'000, kMostValues = 100'000;
constexpr size_t kMostKeyBytes = 65'535;
constexpr uint32_t kMostDims = 4;

// 0 for types without a fixed size.
size_t bytes_of_value(GgufValueType type) {
  switch (type) {
    case GgufValueType::uint8:
    case GgufValueType::int8:
    case GgufValueType::boolean:
      return 1;
    case GgufValueType::uint16:
    case GgufValueType::int16:
      return 2;
    case GgufValueType::uint32:
    case GgufValueType::int32:
    case GgufValueType::float32:
      return 4;
    case GgufValueType::uint64:
    case GgufValueType::int64:
    case GgufValueType::float64:
      return 8;
    default:
      return 0;
  }
}

template <class T>
T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

GgufValue number_of(GgufValueType type, std::span<const std::byte> bytes) {
  switch (type) {
    case GgufValueType::uint8:
      return uint64_t{load<uint8_t>(bytes)};
    case GgufValueType::int8:
      return int64_t{load<int8_t>(bytes)};
    case GgufValueType::boolean:
      return load<uint8_t>(bytes) != 0;
    case GgufValueType::uint16:
      return uint64_t{load<uint16_t>(bytes)};
    case GgufValueType::int16:
      return int64_t{load<int16_t>(bytes)};
    case GgufValueType::uint32:
      return uint64_t{load<uint32_t>(bytes)};
    case GgufValueType::int32:
      return int64_t{load<int32_t>(bytes)};
    case GgufValueType::float32:
      return double{load<float>(bytes)};
    case GgufValueType::uint64:
      return load<uint64_t>(bytes);
    case GgufValueType::int64:
      return load<int64_t>(bytes);
    default:
      return load<double>(bytes);
  }
}

}  // namespace

// Reads from the front, and never past the end.
class GgufFile::Cursor {
 public:
  Cursor(const GgufFile& file, std::span<const std::byte> bytes) : file_(file), bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(uint64_t count) {
    if (count > left()) throw file_.bad("the file ends within its metadata");
    const std::span<const std::byte> taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }
  template <class T>
  T number() {
    return load<T>(take(sizeof(T)));
  }
  std::string_view text() {
    const std::span<const std::byte> bytes = take(number<uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  const GgufFile& file_;
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

double GgufArray::number(uint64_t index) const {
  const size_t size = bytes_of_value(type);
  const GgufValue value = number_of(type, bytes.subspan(index * size, size));
  return std::visit(
      [](const auto& found) -> double {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(found)>>) return static_cast<double>(found);
        return 0;
      },
      value);
}

Error GgufFile::bad(std::string_view what) const {
  return data_error(fmt::format("{}: {}", where_, what), "download or convert the file again");
}

Error GgufFile::refusal(std::string_view key, std::string_view supported) const {
  const GgufValue* value = find(key);
  std::string shown = "is not given";
  if (value != nullptr) {
    shown = std::visit(
        [](const auto& found) -> std::string {
          using T = std::decay_t<decltype(found)>;
          if constexpr (std::is_same_v<T, std::string_view>) return "is " + quote_for_message(found);
          if constexpr (std::is_arithmetic_v<T>) return fmt::format("is {}", found);
          return "is an array";
        },
        *value);
  }
  return data_error(fmt::format("{}: {} {}", where_, key, shown), fmt::format("supported: {}", supported));
}

GgufFile::GgufFile(std::span<const std::byte> bytes, std::string_view where) : where_(where) {
  Cursor cursor(*this, bytes);
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0) {
    throw data_error(fmt::format("{}: not a GGUF file", where_), "give a .gguf file, or a model folder");
  }
  cursor.take(4);
  const auto version = cursor.number<uint32_t>();
  if (version != 2 && version != 3) {
    throw data_error(fmt::format("{}: GGUF version {}", where_, version), "supported: 2 and 3, little endian");
  }
  const auto num_tensors = cursor.number<uint64_t>(), num_values = cursor.number<uint64_t>();
  if (num_tensors > kMostTensors || num_values > kMostValues) throw bad("too many tensors or keys");
  for (uint64_t i = 0; i < num_values; ++i) {
    const std::string_view key = cursor.text();
    if (key.empty() || key.size() > kMostKeyBytes) throw bad("a key that is empty or too long");
    GgufValue value = read_value(cursor, GgufValueType{cursor.number<uint32_t>()});
    if (!values_.emplace(key, std::move(value)).second)
      throw bad(fmt::format("{} occurs twice", quote_for_message(key)));
  }
  read_tensors(cursor, num_tensors);
  const int64_t alignment = whole("general.alignment", 32);
  if (alignment < 1 || alignment > 65536 || (alignment & (alignment - 1)) != 0) {
    throw refusal("general.alignment", "powers of 2 up to 65536");
  }
  const auto unit = static_cast<size_t>(alignment);
  const size_t begin = std::min((cursor.position() + unit - 1) / unit * unit, bytes.size());
  for (size_t i = 0; i < offsets_.size(); ++i) {
    if (offsets_[i] % unit != 0) throw bad(fmt::format("tensor {}: not aligned", quote_for_message(tensors_[i].name)));
  }
  place_tensors(bytes.subspan(begin));
}

GgufValue GgufFile::read_value(Cursor& cursor, GgufValueType type) const {
  if (type == GgufValueType::string) return cursor.text();
  if (type == GgufValueType::array) return read_array(cursor);
  const size_t size = bytes_of_value(type);
  if (size == 0) throw bad(fmt::format("a value of unknown type {}", static_cast<uint32_t>(type)));
  return number_of(type, cursor.take(size));
}

GgufValue GgufFile::read_array(Cursor& cursor) const {
  const GgufValueType type{cursor.number<uint32_t>()};
  const auto count = cursor.number<uint64_t>();
  if (type == GgufValueType::string) {
    if (count > cursor.left() / sizeof(uint64_t)) throw bad("the file ends within an array");
    GgufStrings strings;
    strings.reserve(count);
    for (uint64_t i = 0; i < count; ++i) strings.push_back(cursor.text());
    return strings;
  }
  const size_t size = bytes_of_value(type);
  if (size == 0) throw bad(fmt::format("an array of type {}", static_cast<uint32_t>(type)));
  if (count > cursor.left() / size) throw bad("the file ends within an array");
  return GgufArray{type, count, cursor.take(count * size)};
}

void GgufFile::read_tensors(Cursor& cursor, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    GgufTensor tensor;
    tensor.name = cursor.text();
    const auto num_dims = cursor.number<uint32_t>();
    if (num_dims > kMostDims) {
      throw bad(fmt::format("tensor {}: {} dimensions", quote_for_message(tensor.name), num_dims));
    }
    for (uint32_t axis = 0; axis < num_dims; ++axis) {
      const auto dim = cursor.number<uint64_t>();
      if (dim < 1 || dim > (uint64_t{1} << 40)) {
        throw bad(fmt::format("tensor {}: a dimension of {}", quote_for_message(tensor.name), dim));
      }
      tensor.dims.insert(tensor.dims.begin(), static_cast<int64_t>(dim));
    }
    tensor.type = cursor.number<uint32_t>();
    offsets_.push_back(cursor.number<uint64_t>());
    tensors_.push_back(std::move(tensor));
  }
}

void GgufFile::place_tensors(std::span<const std::byte> data) {
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return offsets_[a] < offsets_[b]; });
  uint64_t covered = 0;
  for (const size_t index : order) {
    GgufTensor& tensor = tensors_[index];
    const auto fail = [&](std::string_view what) {
      return bad(fmt::format("tensor {}: {}", quote_for_message(tensor.name), what));
    };
    const GgmlBlock* block = find_ggml_block(tensor.type);
    if (block == nullptr) continue;  // not supported, and of unknown size
    int64_t numel = 1;
    for (const int64_t dim : tensor.dims) {
      if (__builtin_mul_overflow(numel, dim, &numel) || numel > (int64_t{1} << 48))
        throw fail("its shape is too large");
    }
    const int64_t cols = tensor.dims.empty() ? 1 : tensor.dims.back();
    if (cols % block->values != 0) throw fail(fmt::format("rows of {} values in blocks of {}", cols, block->values));
    const uint64_t bytes = static_cast<uint64_t>(numel / block->values) * block->bytes;
    if (offsets_[index] < covered) throw fail("overlaps the tensor before it");
    if (offsets_[index] > data.size() || bytes > data.size() - offsets_[index]) throw fail("the file ends within it");
    tensor.bytes = data.subspan(offsets_[index], bytes);
    covered = offsets_[index] + bytes;
  }
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::string_view GgufFile::text(std::string_view key, std::optional<std::string_view> fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !std::holds_alternative<std::string_view>(*value)) throw refusal(key, "a string");
  return std::get<std::string_view>(*value);
}

int64_t GgufFile::whole(std::string_view key, std::optional<int64_t> fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  constexpr int64_t kMost = int64_t{1} << 40;
  if (value != nullptr) {
    if (const auto* number = std::get_if<uint64_t>(value); number != nullptr && *number <= uint64_t{kMost}) {
      return static_cast<int64_t>(*number);
    }
    if (const auto* number = std::get_if<int64_t>(value); number != nullptr && *number >= 0 && *number <= kMost) {
      return *number;
    }
  }
  throw refusal(key, "one whole number");
}

double GgufFile::number(std::string_view key, std::optional<double> fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  const double* number = value == nullptr ? nullptr : std::get_if<double>(value);
  if (number == nullptr || !(std::abs(*number) <= 1e30)) throw refusal(key, "one number");
  return *number;
}

bool GgufFile::flag(std::string_view key, bool fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fallback;
  if (!std::holds_alternative<bool>(*value)) throw refusal(key, "true and false");
  return std::get<bool>(*value);
}

const GgufStrings* GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (!std::holds_alternative<GgufStrings>(*value)) throw refusal(key, "an array of strings");
  return &std::get<GgufStrings>(*value);
}

const GgufArray* GgufFile::array(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (!std::holds_alternative<GgufArray>(*value)) throw refusal(key, "an array of numbers");
  return &std::get<GgufArray>(*value);
}

}  // namespace gradmill
