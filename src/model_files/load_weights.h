// SPDX-License-Identifier: Apache-2.0
// Loads a model's parameters from a source, tensor by tensor and a few MiB at a time.
#pragma once

#include <functional>

#include "model_files/weight_map.h"
#include "nn/params.h"

namespace gradmill {

// Where the values go: the weights of a session, or quantised ones.
class WeightSink {
 public:
  virtual ~WeightSink() = default;
  // False: neither rows nor fresh are called for the parameter.
  virtual bool wants(ParamId) const { return true; }
  // Takes rows [begin, begin + count) of a parameter (elements of a vector), finite, in fp32. Each row comes once, in
  // order, one parameter after the other.
  virtual void rows(ParamId id, int64_t begin, int64_t count, const float* values) = 0;
  // The parameter has no values in the source.
  virtual void fresh(ParamId id) = 0;
  virtual void finish() {}
};

// If a value is not finite, throws a data_error that names the tensor and the place.
void load_weights(const TensorSource& source, const WeightMap& map, const Transformer& model, WeightSink& sink);

// Trainable parameters are written to their masters, frozen ones in the compute dtype. New ones get the random values
// that Weights::initialise would give them.
class WeightsFiller : public WeightSink {
 public:
  WeightsFiller(ExecContext& ctx, Weights& weights, uint64_t seed) : ctx_(ctx), weights_(weights), seed_(seed) {}

  bool wants(ParamId id) const override { return !weights_.is_read_only(id); }
  void rows(ParamId id, int64_t begin, int64_t count, const float* values) override;
  void fresh(ParamId id) override;
  void finish() override { weights_.refresh_compute(ctx_); }

 private:
  ExecContext& ctx_;
  Weights& weights_;
  uint64_t seed_;
  std::vector<std::byte> narrowed_;
};

// The reverse: parameters as a source, under the family's names, for exports. Tensors are written in the types of
// `origin`, or in fp32 if it is null or does not have the tensor.
class ParamSource final : public TensorSource {
 public:
  // Rows [begin, end) of a parameter (elements of a vector), in fp32.
  using Fetch = std::function<std::vector<float>(ParamId id, int64_t begin, int64_t end)>;

  ParamSource(const Transformer& model, const Family& family, Fetch fetch, const TensorSource* origin = nullptr);

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

// Reads masters, or the stored weights of frozen parameters.
ParamSource::Fetch fetch_weights(ExecContext& ctx, const Weights& weights);
// Reads a buffer over the flat space: (P) fp32 in host memory.
ParamSource::Fetch fetch_flat(const ParamTable& params, const TensorView& flat);

}  // namespace gradmill
