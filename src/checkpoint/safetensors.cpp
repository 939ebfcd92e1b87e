// SPDX-License-Identifier: Apache-2.0
// The file consists of a u64 header size, a JSON header, and the data. Every number is checked before it is used.
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "files/strict_json.h"

namespace gradmill {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are used as they lie");

using nlohmann::json;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kFix = "download or export the file again";

struct FileDType {
  std::string_view name;
  uint64_t bits;
  std::optional<DType> dtype;  // absent: a valid dtype of the format that nothing here computes with
};

constexpr std::array<FileDType, 22> kFileDTypes{{
    {"F32", 32, DType::fp32},
    {"BF16", 16, DType::bf16},
    {"F16", 16, DType::fp16},
    {"F8_E4M3", 8, DType::fp8_e4m3},
    {"F8_E5M2", 8, DType::fp8_e5m2},
    {"I8", 8, DType::int8},
    {"I32", 32, DType::int32},
    {"BOOL", 8, {}},
    {"U8", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"U32", 32, {}},
    {"I64", 64, {}},
    {"U64", 64, {}},
    {"F64", 64, {}},
    {"C64", 64, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
}};

// One header entry, already checked by itself.
struct Entry {
  const FileDType* type = nullptr;
  std::vector<int64_t> dims;
  uint64_t begin = 0, end = 0;  // offsets in the data
};

// Parses entries. Its error messages name the file and the tensor.
class EntryReader {
 public:
  EntryReader(const std::string& path, const std::string& name, uint64_t data_bytes)
      : path_(path), name_(name), data_bytes_(data_bytes) {}

  Entry read(const json& value) const {
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
      throw refusal("its entry is not an object of dtype, shape and data_offsets");
    }
    Entry entry;
    entry.type = read_type(value["dtype"]);
    const uint64_t numel = read_shape(value["shape"], entry.dims);
    const json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2) throw refusal("data_offsets is not a pair");
    entry.begin = read_number(offsets[0], "an offset");
    entry.end = read_number(offsets[1], "an offset");
    if (entry.begin > entry.end || entry.end > data_bytes_) {
      throw refusal(
          fmt::format("its bytes [{}, {}) do not lie in the {} bytes of data", entry.begin, entry.end, data_bytes_));
    }
    uint64_t bits = 0;
    if (__builtin_mul_overflow(numel, entry.type->bits, &bits) || bits % 8 != 0 ||
        bits / 8 != entry.end - entry.begin) {
      throw refusal(
          fmt::format("{} values of {} do not take {} bytes", numel, entry.type->name, entry.end - entry.begin));
    }
    return entry;
  }

  Error refusal(std::string_view what) const {
    return data_error(fmt::format("{}: tensor {}: {}", path_, quote_for_message(name_), what), kFix);
  }

 private:
  const FileDType* read_type(const json& value) const {
    if (!value.is_string()) throw refusal("dtype is not a string");
    const auto& text = value.get_ref<const std::string&>();
    const auto type =
        std::find_if(kFileDTypes.begin(), kFileDTypes.end(), [&](const FileDType& t) { return t.name == text; });
    if (type == kFileDTypes.end()) throw refusal(fmt::format("unknown dtype {}", quote_for_message(text)));
    return &*type;
  }

  uint64_t read_shape(const json& value, std::vector<int64_t>& dims) const {
    if (!value.is_array()) throw refusal("shape is not an array");
    // A dimension of zero must not hide an absurd one: products over part of the shape could overflow later.
    int64_t numel = 1, extent = 1;
    for (const json& dim : value) {
      const uint64_t size = read_number(dim, "a dimension");
      if (__builtin_mul_overflow(extent, std::max<uint64_t>(size, 1), &extent)) throw refusal("its shape is too large");
      numel = size == 0 ? 0 : numel * static_cast<int64_t>(size);
      dims.push_back(static_cast<int64_t>(size));
    }
    return static_cast<uint64_t>(numel);
  }

  uint64_t read_number(const json& value, std::string_view what) const {
    if (!value.is_number_unsigned()) throw refusal(fmt::format("{} is not a whole number from 0 to 2^64 - 1", what));
    return value.get<uint64_t>();
  }

  const std::string& path_;
  const std::string& name_;
  uint64_t data_bytes_;
};

Shape to_shape(const std::vector<int64_t>& dims) {
  switch (dims.size()) {
    case 0:
      return {1};
    case 1:
      return {dims[0]};
    case 2:
      return {dims[0], dims[1]};
    case 3:
      return {dims[0], dims[1], dims[2]};
    default:
      return {dims[0], dims[1], dims[2], dims[3]};
  }
}

// In order of offset, each tensor must begin where the previous one ends, and together they must cover all bytes.
void check_coverage(const std::string& path, const std::vector<std::string>& names, const std::vector<Entry>& entries,
                    uint64_t data_bytes) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(entries[a].begin, entries[a].end) < std::pair(entries[b].begin, entries[b].end);
  });
  uint64_t covered = 0;
  for (const size_t i : order) {
    if (entries[i].begin != covered) {
      const char* what = entries[i].begin < covered ? "overlaps the tensor before it" : "leaves a hole before it";
      throw EntryReader(path, names[i], data_bytes).refusal(what);
    }
    covered = entries[i].end;
  }
  if (covered != data_bytes) {
    throw data_error(fmt::format("{}: {} bytes after the last tensor", path, data_bytes - covered), kFix);
  }
}

std::map<std::string, std::string> read_metadata(const std::string& path, const json& value) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) throw data_error(fmt::format("{}: {} is not an object", path, kMetadataKey), kFix);
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      throw data_error(fmt::format("{}: {}: {} is not a string", path, kMetadataKey, quote_for_message(key)), kFix);
    }
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

// Checks the sizes at the start of the file and returns the header's text.
std::string_view header_text(const std::string& path, std::span<const std::byte> bytes) {
  uint64_t size = 0;
  if (bytes.size() < sizeof size) throw data_error(fmt::format("{}: too short for a safetensors file", path), kFix);
  std::memcpy(&size, bytes.data(), sizeof size);
  if (size > kMaxHeaderBytes) {
    throw data_error(fmt::format("{}: a header of {} bytes; the format allows {}", path, size, kMaxHeaderBytes),
                     "this is not a safetensors file, or it is damaged");
  }
  if (size > bytes.size() - sizeof size)
    throw data_error(fmt::format("{}: the file ends within its header", path), kFix);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof size, size);
  if (!text.starts_with('{')) throw data_error(fmt::format("{}: the header does not start with '{{'", path), kFix);
  return text;
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  const auto type =
      std::find_if(kFileDTypes.begin(), kFileDTypes.end(), [&](const FileDType& t) { return t.dtype == dtype; });
  assert(type != kFileDTypes.end());
  return type->name;
}

SafeTensors::SafeTensors(const std::filesystem::path& path) : path_(path.string()), file_(path) {
  read_header();
  file_.check();
}

void SafeTensors::read_header() {
  const std::string_view text = header_text(path_, file_.bytes());
  const std::span<const std::byte> data = file_.bytes().subspan(sizeof(uint64_t) + text.size());
  const json header = parse_strict_json(text, fmt::format("{}: header", path_));
  if (header.size() > kMaxTensors + 1) {
    throw data_error(fmt::format("{}: more than {} tensors", path_, kMaxTensors), "split the file into shards");
  }
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      metadata_ = read_metadata(path_, value);
      continue;
    }
    names_.push_back(name);
    entries.push_back(EntryReader(path_, name, data.size()).read(value));
  }
  check_coverage(path_, names_, entries, data.size());

  for (const Entry& entry : entries) {
    Tensor& tensor = tensors_.emplace_back();
    tensor.stored = {entry.type->name, entry.dims, data.subspan(entry.begin, entry.end - entry.begin)};
    if (!entry.type->dtype) {
      tensor.refusal = fmt::format("has dtype {}, which gradmill does not read", entry.type->name);
    } else if (entry.dims.size() > Shape::kMaxRank) {
      tensor.refusal = fmt::format("has {} dimensions, more than {}", entry.dims.size(), Shape::kMaxRank);
    } else {
      // TensorView has no const form. The contract of at() forbids writing.
      void* address = const_cast<std::byte*>(data.data() + entry.begin);
      tensor.view = TensorView(address, *entry.type->dtype, to_shape(entry.dims));
    }
  }
}

void SafeTensors::align(const Tensor& tensor) const {
  if (reinterpret_cast<uintptr_t>(tensor.view.data) % size_of(tensor.view.dtype) == 0 || tensor.view.numel() == 0)
    return;
  const Storage& copy = aligned_copies_.emplace_back(tensor.view.bytes());
  std::memcpy(copy.bytes().data(), tensor.view.data, tensor.view.bytes());
  file_.check();
  tensor.view.data = copy.bytes().data();
}

size_t SafeTensors::find(std::string_view name) const {
  const auto place = std::lower_bound(names_.begin(), names_.end(), name);
  return place != names_.end() && *place == name ? static_cast<size_t>(place - names_.begin()) : names_.size();
}

bool SafeTensors::contains(std::string_view name) const { return find(name) < names_.size(); }

TensorView SafeTensors::at(std::string_view name) const {
  const size_t index = find(name);
  if (index == names_.size()) {
    throw data_error(fmt::format("{}: no tensor {}", path_, quote_for_message(name)),
                     "check that the file belongs to this model");
  }
  if (const std::string& refusal = tensors_[index].refusal; !refusal.empty()) {
    throw data_error(fmt::format("{}: tensor {} {}", path_, quote_for_message(name), refusal),
                     "convert it to F32, BF16, F16 or I32");
  }
  align(tensors_[index]);
  return tensors_[index].view;
}

}  // namespace gradmill
