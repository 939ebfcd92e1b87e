// SPDX-License-Identifier: Apache-2.0
#include "model_files/gguf/gguf_export.h"

#include <cmath>

#include "core/error.h"
#include "files/fresh_target.h"
#include "files/output_file.h"
#include "model_files/float_rows.h"
#include "model_files/gguf/gguf_config.h"
#include "model_files/gguf/gguf_names.h"
#include "model_files/gguf/gguf_vocabulary.h"

namespace gradmill {
namespace {

constexpr size_t kAlignmentBytes = 32;

// A tensor of the file.
struct Entry {
  std::string name;
  const ExportTensor* tensor = nullptr;  // null: the factors of rotary positions
  std::vector<int64_t> dims;             // as in the file, C order
  GgmlType type = GgmlType::f32;
  bool turned = false;
  int64_t head_rows = 0;  // rows per head if they are written in pairs
  bool plus_one = false;

  size_t bytes() const {
    const GgmlBlock& block = *find_ggml_block(static_cast<uint32_t>(type));
    int64_t values = 1;
    for (const int64_t dim : dims) values *= dim;
    return static_cast<size_t>(values / block.values) * block.bytes;
  }
};

size_t padded(size_t bytes) { return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes; }

int64_t file_type(GgmlType type) {
  return type == GgmlType::f16 ? 1 : type == GgmlType::q8_0 ? 7 : type == GgmlType::bf16 ? 32 : 0;
}

GgmlType type_of(const Entry& entry, GgmlType wanted) {
  if (entry.dims.size() < 2 || entry.name == "position_embd.weight") return GgmlType::f32;
  const bool whole_blocks = entry.dims.back() % find_ggml_block(static_cast<uint32_t>(wanted))->values == 0;
  return whole_blocks ? wanted : GgmlType::f16;
}

Entry make_entry(const ExportTensor& tensor, const HfConfig& config, GgmlType wanted) {
  const std::optional<std::string> name = gguf_name_of_hf(*config.family, tensor.name);
  if (!name) {
    throw usage_error(fmt::format("GGUF cannot hold the tensor {}", tensor.name), "export as hf instead");
  }
  Entry entry{.name = *name, .tensor = &tensor};
  const std::vector<int64_t> dims = tensor.dims();
  // The file stores every matrix as (out, in).
  const bool transposed = config.family->params.layers_transposed && entry.name.starts_with("blk.") && dims.size() == 2;
  entry.turned = tensor.turned != transposed;
  entry.dims = dims;
  if (transposed) std::swap(entry.dims[0], entry.dims[1]);
  const GgufForm& form = config.family->gguf;
  if (form.rotated_rows && is_gguf_query_or_key(entry.name)) entry.head_rows = config.spec.head_dim;
  entry.plus_one = form.norms_hold_offset && entry.name.ends_with("norm.weight");
  entry.type = type_of(entry, wanted);
  return entry;
}

// Llama 3's scaling as one factor per frequency.
std::vector<float> llama3_factors(const TransformerSpec& spec) {
  std::vector<float> factors;
  const RopeScaling& scaling = spec.rope_scaling;
  const double context = static_cast<double>(scaling.original_context);
  for (int64_t j = 0; j < spec.head_dim / 2; ++j) {
    const double wavelength =
        2 * M_PI * std::pow(double{spec.rope_theta}, 2.0 * static_cast<double>(j) / static_cast<double>(spec.head_dim));
    const double smooth =
        (context / wavelength - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency);
    factors.push_back(static_cast<float>(wavelength < context / scaling.high_frequency ? 1.0
                                         : wavelength > context / scaling.low_frequency
                                             ? scaling.factor
                                             : 1 / ((1 - smooth) / scaling.factor + smooth)));
  }
  return factors;
}

class TensorWriter {
 public:
  TensorWriter(OutputFile& file, const Entry& entry) : file_(file), entry_(entry) {}

  void write() {
    const ExportTensor& tensor = *entry_.tensor;
    const SourceTensor& source = tensor.source->tensors()[tensor.index];
    if (entry_.turned || entry_.head_rows > 0) {
      write_rearranged(*tensor.source, tensor.index, source);
    } else {
      const int64_t cols = source.cols();
      tensor.source->visit_rows(tensor.index, [&](int64_t, int64_t count, const float* values) {
        append({values, values + count * cols});
      });
    }
  }

  void append(std::vector<float> values) {
    if (entry_.plus_one) {
      for (float& value : values) value += 1;
    }
    const GgmlBlock& block = *find_ggml_block(static_cast<uint32_t>(entry_.type));
    std::vector<std::byte> bytes(values.size() / static_cast<size_t>(block.values) * block.bytes);
    if (entry_.type == GgmlType::q8_0) {
      quantise_q8_0(values, bytes.data());
    } else {
      narrow(values,
             entry_.type == GgmlType::f16    ? DType::fp16
             : entry_.type == GgmlType::bf16 ? DType::bf16
                                             : DType::fp32,
             bytes.data());
    }
    file_.append(bytes);
  }

 private:
  // Transposed matrices are small enough to hold. Rows in pairs are written head by head.
  void write_rearranged(const TensorSource& source, size_t index, const SourceTensor& tensor) {
    const int64_t rows = tensor.rows(), cols = tensor.cols();
    if (entry_.turned) {
      std::vector<float> turned(static_cast<size_t>(rows * cols));
      source.visit_rows(index, [&](int64_t first, int64_t count, const float* values) {
        for (int64_t row = 0; row < count; ++row) {
          for (int64_t col = 0; col < cols; ++col) {
            turned[static_cast<size_t>(col * rows + first + row)] = values[row * cols + col];
          }
        }
      });
      return append(std::move(turned));
    }
    // A bias is treated as a column of such rows.
    const bool vector = tensor.dims.size() == 1;
    const int64_t units = vector ? cols : rows, width = vector ? 1 : cols;
    const int64_t head = entry_.head_rows, half = head / 2, step = vector ? units : head;
    for (int64_t first = 0; first < units; first += step) {
      std::vector<float> values(static_cast<size_t>(step * width)), paired(values.size());
      vector ? source.read_rows(index, 0, 1, values.data())
             : source.read_rows(index, first, first + step, values.data());
      TensorSource::check_finite(tensor, vector ? 0 : first, values);
      for (int64_t row = 0; row < step; ++row) {
        const int64_t in_head = row % head, from = row - in_head + in_head / 2 + half * (in_head % 2);
        std::copy_n(values.begin() + from * width, width, paired.begin() + row * width);
      }
      append(std::move(paired));
    }
  }

  OutputFile& file_;
  const Entry& entry_;
};

std::string file_beginning(const GgufMetadata& metadata, const std::vector<Entry>& entries) {
  std::string text = metadata.header(entries.size());
  uint64_t offset = 0;
  for (const Entry& entry : entries) {
    GgufMetadata::append_text(text, entry.name);
    GgufMetadata::append(text, static_cast<uint32_t>(entry.dims.size()));
    for (size_t axis = entry.dims.size(); axis > 0; --axis) {
      GgufMetadata::append(text, static_cast<uint64_t>(entry.dims[axis - 1]));
    }
    GgufMetadata::append(text, static_cast<uint32_t>(entry.type));
    GgufMetadata::append(text, offset);
    offset += padded(entry.bytes());
  }
  text.resize(padded(text.size()));
  return text;
}

}  // namespace

void export_gguf(const std::filesystem::path& path, const TensorSource& source, const HfConfig& config,
                 const std::vector<ExportFile>& files, const GgufExportOptions& options, FileOps& ops) {
  GgufMetadata metadata;
  add_model_metadata(metadata, config);
  if (!options.name.empty()) metadata.add_text("general.name", options.name);
  metadata.add_whole("general.file_type", file_type(options.type));
  if (options.type == GgmlType::q8_0) metadata.add_whole("general.quantization_version", 2);
  add_tokenizer_metadata(metadata, config, files);
  const std::vector<ExportTensor> tensors = export_tensors(source, config, nullptr);
  std::vector<Entry> entries;
  const bool llama3 = config.spec.rope_scaling.kind == RopeScalingKind::llama3;
  if (llama3) entries.push_back({.name = "rope_freqs.weight", .dims = {config.spec.head_dim / 2}});
  for (const ExportTensor& tensor : tensors) entries.push_back(make_entry(tensor, config, options.type));

  FreshTarget target(ops, path, FreshTarget::Kind::file);
  {
    OutputFile file(ops, target.path());
    file.append(file_beginning(metadata, entries));
    for (const Entry& entry : entries) {
      TensorWriter writer(file, entry);
      entry.tensor == nullptr ? writer.append(llama3_factors(config.spec)) : writer.write();
      file.append(std::string(padded(entry.bytes()) - entry.bytes(), '\0'));
    }
    file.finish();
  }
  target.publish();
}

}  // namespace gradmill
