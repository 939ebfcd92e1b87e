// SPDX-License-Identifier: Apache-2.0
// A model's parameters from a source, tensor by tensor and a few MiB at a time.
#pragma once

#include <functional>

#include "model_files/weight_map.h"
#include "nn/params.h"

namespace gradmill {

// Whoever keeps the values: the weights of a session, or quantised ones.
class WeightSink {
 public:
  virtual ~WeightSink() = default;
  // Rows [begin, begin + count) of a parameter (elements, of a vector), finite, in fp32: each once, in order, one
  // parameter after the other.
  virtual void rows(ParamId id, int64_t begin, int64_t count, const float* values) = 0;
  // The parameter has no values in the source.
  virtual void fresh(ParamId id) = 0;
  virtual void finish() {}
};

// Throws a data_error that names tensor and place of a value that is not finite.
void load_weights(const TensorSource& source, const WeightMap& map, const Transformer& model, WeightSink& sink);

// Trainable parameters go to their masters, frozen ones to the compute dtype; new ones get the random values that
// Weights::initialise would give them.
class WeightsFiller : public WeightSink {
 public:
  WeightsFiller(ExecContext& ctx, Weights& weights, uint64_t seed) : ctx_(ctx), weights_(weights), seed_(seed) {}

  void rows(ParamId id, int64_t begin, int64_t count, const float* values) override;
  void fresh(ParamId id) override;
  void finish() override { weights_.refresh_compute(ctx_); }

 private:
  ExecContext& ctx_;
  Weights& weights_;
  uint64_t seed_;
  std::vector<std::byte> narrowed_;
};

// The other way: parameters as a source, under the family's names, for exports. The types in which tensors are written
// again are those of `origin`, or fp32 where it is null or does not have them.
class ParamSource final : public TensorSource {
 public:
  // Rows [begin, end) of a parameter (elements, of a vector), in fp32.
  using Fetch = std::function<std::vector<float>(ParamId id, int64_t begin, int64_t end)>;

  ParamSource(const Transformer& model, HfFamily family, Fetch fetch, const TensorSource* origin = nullptr);

  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  void read_rows(size_t index, int64_t begin, int64_t end, float* out) const override;

 private:
  struct Place {
    ParamId id = kNoParam;
    int64_t begin = 0;
    bool transposed = false;
  };

  Fetch fetch_;
  std::vector<SourceTensor> tensors_;
  std::vector<Place> places_;
};

// Masters, or what frozen parameters have instead.
ParamSource::Fetch fetch_weights(ExecContext& ctx, const Weights& weights);
// A buffer over the flat space, (P) fp32 in host memory.
ParamSource::Fetch fetch_flat(const ParamTable& params, const TensorView& flat);

}  // namespace gradmill
