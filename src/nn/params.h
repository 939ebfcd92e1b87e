// SPDX-License-Identifier: Apache-2.0
// Parameters: what a model has (ParamTable), their values (Weights) and their gradients (Gradients).
#pragma once

#include <cassert>
#include <string>
#include <vector>

#include "core/exec_context.h"
#include "core/segment.h"
#include "nn/adapter_plan.h"
#include "nn/frozen_weights.h"

namespace gradmill {

using ParamId = int32_t;
inline constexpr ParamId kNoParam = -1;

enum class Init : uint8_t { normal, zeros, ones, uniform };

struct ParamSpec {
  std::string name;  // "layers.0.attention.qkv.weight"
  int64_t rows = 0;  // 0: a vector of `cols`
  int64_t cols = 0;
  Init init = Init::normal;
  float init_std = 0.02f;  // uniform: half the width of the interval
  bool trainable = true;
  // Part of an adapter, or computed from other parameters: no model file has it, and no plan freezes it.
  bool beside_model = false;
  bool linear = false;  // the weight of a linear layer
  WeightFormat format = WeightFormat::compute;

  bool is_matrix() const { return rows > 0; }
  Shape shape() const { return is_matrix() ? Shape{rows, cols} : Shape{cols}; }
  int64_t numel() const { return shape().numel(); }
};

// Matrices decay, vectors (norms, biases) do not.
enum ParamGroupId : int32_t { kDecayGroup = 0, kNoDecayGroup = 1, kNumParamGroups = 2 };

// One slice of a linear layer with an adapter, and with DoRA the parameters that give its gains (see nn/dora.cpp).
struct AdaptedSlice {
  ParamId weight = kNoParam;
  int64_t row_begin = 0, row_end = 0;  // of the weight
  ParamId a = kNoParam;
  int64_t rank_begin = 0, rank = 0;  // rows of a
  ParamId b = kNoParam;
  ParamId magnitude = kNoParam, base_norms = kNoParam, gain = kNoParam;  // (rows) fp32; DoRA only
  float scale = 0;
};

// Structure only. Trainable parameters get a segment each in the flat space, in order of addition.
class ParamTable {
 public:
  ParamTable() = default;
  explicit ParamTable(AdapterPlan plan) : plan_(std::move(plan)) {}

  const AdapterPlan& plan() const { return plan_; }
  // To be called once the model is complete. Throws a usage error when the plan names something that it does not have.
  void check_plan() const;
  // Parameters of the plan's frozen base become untrainable here.
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
  // The widest adapter: ranks of all slices of one layer together.
  int64_t max_rank() const { return max_rank_; }
  void note_rank(int64_t rank) { max_rank_ = rank > max_rank_ ? rank : max_rank_; }
  // In the order of the weights' rows; those of one weight are neighbours.
  const std::vector<AdaptedSlice>& adapted_slices() const { return adapted_slices_; }
  void add_adapted_slice(const AdaptedSlice& slice) { adapted_slices_.push_back(slice); }

 private:
  AdapterPlan plan_;
  std::vector<AdaptedSlice> adapted_slices_;
  int64_t max_rank_ = 0;
  std::vector<ParamSpec> specs_;
  std::vector<int32_t> segment_of_;  // -1: frozen
  std::vector<Segment> segments_;
  int64_t flat_size_ = 0;
};

// Values in persistent memory. Trainables have fp32 masters in the flat space and, when the compute dtype is narrower,
// a flat copy in it; frozen parameters have only a tensor of the compute dtype, or codes and scales.
class Weights {
 public:
  Weights(ExecContext& ctx, const ParamTable& table, DType compute_dtype, const FrozenPlace& frozen = {});

  // The tensor that layers read, in the compute dtype (fp32 where the format says so). Not for quantised parameters.
  TensorView operator[](ParamId id) const {
    assert(!is_quantised(id));
    return views_[static_cast<size_t>(id)];
  }
  // The same for any parameter: a quantised one is dequantised to scratch, which lives until the caller's scope ends.
  TensorView plain(ExecContext& ctx, ParamId id) const;
  bool is_quantised(ParamId id) const { return scales_[static_cast<size_t>(id)].defined(); }
  // The tensor that the optimiser changes; undefined for a frozen parameter.
  TensorView master(ParamId id) const;
  TensorView flat_master() const { return master_; }
  TensorView flat_compute() const { return compute_; }  // undefined when masters are computed with
  DType dtype() const { return dtype_; }
  // Whether the base holds the adapters' part too, so that layers leave them out: adapters/merge.h.
  bool adapters_merged() const { return adapters_merged_; }
  void set_adapters_merged(bool merged) { adapters_merged_ = merged; }
  const ParamTable& table() const { return *table_; }

  // Random values (see ops/init.h), of frozen parameters too unless they are read only.
  void initialise(ExecContext& ctx, uint64_t seed);
  // The same, with frozen parameters as they are.
  void initialise_trained(ExecContext& ctx, uint64_t seed);
  // The model's frozen weights for other sessions to read. They are read only from here on.
  std::map<std::string, FrozenWeight, std::less<>> share_frozen();
  bool is_read_only(ParamId id) const { return read_only_[static_cast<size_t>(id)]; }
  // Writes all copies of one parameter from a contiguous host tensor of any float type. Call refresh_compute after the
  // last one. Quantising needs scratch.
  void load(ExecContext& ctx, ParamId id, const TensorView& host);
  void set(ExecContext& ctx, ParamId id, const float* values);
  // The master's values, or a frozen parameter's, dequantised.
  std::vector<float> get(ExecContext& ctx, ParamId id) const;
  // Recomputes everything that follows from masters and frozen weights, after they were written from outside: compute
  // copies, and with DoRA norms and gains (which need scratch).
  void refresh_compute(ExecContext& ctx);
  // Recomputes DoRA's gains from the current adapters and magnitudes. Call it after every update.
  void refresh_gains(ExecContext& ctx) const;
  // Sets DoRA's magnitudes of fresh adapters to the norms, so that gains are 1.
  void init_magnitudes(ExecContext& ctx) const;

 private:
  // Recomputes ‖W‖² of the rows of frozen weights that have magnitudes.
  void refresh_base_norms(ExecContext& ctx) const;
  void clear_padding(ExecContext& ctx);
  TensorView allocate_frozen(ExecContext& ctx, const ParamSpec& spec, Arena& arena);
  TensorView frozen_view(ExecContext& ctx, const ParamSpec& spec, const FrozenPlace& place);
  void initialise_frozen(ExecContext& ctx, ParamId id, uint64_t seed);

  const ParamTable* table_;
  DType dtype_;
  TensorView master_;               // (P) fp32
  TensorView compute_;              // (P) compute dtype
  std::vector<TensorView> views_;   // of a quantised parameter its codes
  std::vector<TensorView> scales_;  // undefined: not quantised
  std::vector<bool> read_only_;     // other sessions read them
  bool adapters_merged_ = false;
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
