// SPDX-License-Identifier: Apache-2.0
// Parameters: what a model has (ParamTable), their values (Weights) and their gradients (Gradients).
#pragma once

#include <string>
#include <vector>

#include "core/exec_context.h"
#include "core/segment.h"

namespace gradmill {

using ParamId = int32_t;
inline constexpr ParamId kNoParam = -1;

enum class Init : uint8_t { normal, zeros, ones };

struct ParamSpec {
  std::string name;  // "layers.0.attention.qkv.weight"
  int64_t rows = 0;  // 0: a vector of `cols`
  int64_t cols = 0;
  Init init = Init::normal;
  float init_std = 0.02f;
  bool trainable = true;

  bool is_matrix() const { return rows > 0; }
  Shape shape() const { return is_matrix() ? Shape{rows, cols} : Shape{cols}; }
  int64_t numel() const { return shape().numel(); }
};

// Matrices decay, vectors (norms, biases) do not.
enum ParamGroupId : int32_t { kDecayGroup = 0, kNoDecayGroup = 1, kNumParamGroups = 2 };

// Structure only. Trainable parameters get a segment each in the flat space, in order of addition.
class ParamTable {
 public:
  ParamId add(ParamSpec spec);

  int64_t size() const { return static_cast<int64_t>(specs_.size()); }
  const ParamSpec& spec(ParamId id) const { return specs_[static_cast<size_t>(id)]; }
  // Throws a usage error when there is none.
  ParamId find(std::string_view name) const;
  const std::vector<Segment>& segments() const { return segments_; }
  // The parameter's segment, or null when it is frozen.
  const Segment* segment(ParamId id) const;
  // The parameter in a buffer over the flat space; undefined when it is frozen.
  TensorView view(ParamId id, const TensorView& flat) const;
  int64_t flat_size() const { return flat_size_; }
  int64_t num_parameters() const;

 private:
  std::vector<ParamSpec> specs_;
  std::vector<int32_t> segment_of_;  // -1: frozen
  std::vector<Segment> segments_;
  int64_t flat_size_ = 0;
};

// Values in persistent memory. Trainables have fp32 masters in the flat space and, when the compute dtype is narrower,
// a flat copy in it; frozen parameters have only a tensor of the compute dtype.
class Weights {
 public:
  Weights(ExecContext& ctx, const ParamTable& table, DType compute_dtype);

  // What layers read: the compute dtype.
  TensorView operator[](ParamId id) const { return views_[static_cast<size_t>(id)]; }
  // What the optimiser changes; undefined for a frozen parameter.
  TensorView master(ParamId id) const;
  TensorView flat_master() const { return master_; }
  TensorView flat_compute() const { return compute_; }  // undefined when masters are computed with
  DType dtype() const { return dtype_; }
  const ParamTable& table() const { return *table_; }

  // Random values (see ops/init.h). Frozen parameters come from files, not from here.
  void initialise(ExecContext& ctx, uint64_t seed);
  // Writes one trainable parameter (and its compute copy) from fp32 values of the host.
  void set(ExecContext& ctx, ParamId id, const float* values);
  std::vector<float> get(ExecContext& ctx, ParamId id) const;
  // Compute copies of all masters again, after the masters were written from outside.
  void refresh_compute(ExecContext& ctx);

 private:
  const ParamTable* table_;
  DType dtype_;
  TensorView master_;   // (P) fp32
  TensorView compute_;  // (P) compute dtype
  std::vector<TensorView> views_;
};

// fp32 gradients over the flat space. No pass zeroes them: the step's first writer of a parameter overwrites.
class Gradients {
 public:
  Gradients(ExecContext& ctx, const ParamTable& table);

  void begin_step() { written_.assign(written_.size(), false); }
  bool wants(ParamId id) const { return id != kNoParam && table_->segment(id) != nullptr; }

  struct Target {
    TensorView grad;  // undefined: frozen
    float beta = 0;   // 0 for the first writer of the step, then 1
  };
  Target write(ParamId id);

  TensorView flat() const { return flat_; }
  TensorView view(ParamId id) const;
  bool all_written() const;
  // After the writers ran as a captured graph, unseen by write().
  void set_all_written() { written_.assign(written_.size(), true); }

 private:
  const ParamTable* table_;
  TensorView flat_;
  std::vector<bool> written_;
};

}  // namespace gradmill
