// SPDX-License-Identifier: Apache-2.0
#include "model_files/load_weights.h"

#include "core/error.h"
#include "model_files/float_rows.h"
#include "ops/init.h"
#include "ops/transfer.h"

namespace gradmill {
namespace {

// From (in, out) to our (out, in). Only these tensors are held in memory as a whole.
void load_transposed(const TensorSource& source, const WeightPart& part, ParamId id, WeightSink& sink) {
  const SourceTensor& tensor = source.tensors()[part.source];
  const int64_t in = tensor.dims[0], out = tensor.dims[1];
  std::vector<float> turned(static_cast<size_t>(in * out));
  source.visit_rows(part.source, [&](int64_t first, int64_t count, const float* values) {
    for (int64_t col = 0; col < out; ++col) {
      for (int64_t row = 0; row < count; ++row)
        turned[static_cast<size_t>(col * in + first + row)] = values[row * out + col];
    }
  });
  sink.rows(id, part.begin, part.rows, turned.data());
}

}  // namespace

void load_weights(const TensorSource& source, const WeightMap& map, const Transformer& model, WeightSink& sink) {
  for (ParamId id = 0; id < model.params().size(); ++id) {
    if (!sink.wants(id)) continue;
    const std::vector<WeightPart>& parts = map.parts[static_cast<size_t>(id)];
    if (parts.empty()) sink.fresh(id);
    const bool matrix = model.params().spec(id).is_matrix();
    for (const WeightPart& part : parts) {
      if (part.transposed) {
        load_transposed(source, part, id, sink);
        continue;
      }
      source.visit_rows(part.source, [&](int64_t first, int64_t count, const float* values) {
        sink.rows(id, part.begin + first, matrix ? count : part.rows, values);
      });
    }
  }
  sink.finish();
}

void WeightsFiller::rows(ParamId id, int64_t begin, int64_t count, const float* values) {
  const TensorView master = weights_.master(id);
  if (master.defined()) return copy_to_device(ctx_, master.slice_rows(begin, begin + count), values);
  const TensorView to = weights_[id].slice_rows(begin, begin + count);
  narrowed_.resize(to.bytes());
  narrow({values, static_cast<size_t>(to.numel())}, to.dtype, narrowed_.data());
  copy_to_device(ctx_, to, narrowed_.data());
}

void WeightsFiller::fresh(ParamId id) {
  const ParamSpec& spec = weights_.table().spec(id);
  if (!spec.trainable) {
    throw usage_error(fmt::format("parameter '{}' is not in the model's files, and it would not be trained", spec.name),
                      "train it, or start from a checkpoint that has it");
  }
  init_values(ctx_, {.to = weights_.master(id),
                     .mean = spec.init == Init::ones ? 1.0f : 0.0f,
                     .std = spec.init == Init::normal ? spec.init_std : 0.0f,
                     .seed = seed_,
                     .param = static_cast<uint32_t>(id)});
}

}  // namespace gradmill
