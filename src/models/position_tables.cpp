// SPDX-License-Identifier: Apache-2.0
// D head width, P positions.
#include "models/position_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/disentangled/disentangled_attention.h"
#include "ops/transfer.h"

namespace gradmill {
namespace {

constexpr float kTurn = 2 * std::numbers::pi_v<float>;

std::vector<float> plain_angles(float theta, int64_t dim) {
  std::vector<float> angles;
  for (int64_t j = 0; j < dim / 2; ++j) {
    angles.push_back(1.0f / std::pow(theta, static_cast<float>(2 * j) / static_cast<float>(dim)));
  }
  return angles;
}

// Short wavelengths stay, long ones are stretched, those between are mixed.
void scale_llama3(const RopeScaling& scaling, std::vector<float>& angles) {
  const auto context = static_cast<float>(scaling.original_context);
  for (float& angle : angles) {
    const float length = kTurn / angle;
    if (length > context / scaling.low_frequency) {
      angle /= scaling.factor;
    } else if (length >= context / scaling.high_frequency) {
      const float share = (context / length - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency);
      angle = (1 - share) * angle / scaling.factor + share * angle;
    }
  }
}

// "YaRN" (Peng et al.): dimensions that turn more than beta_fast times within the original context stay, those that
// turn less than beta_slow times are stretched, with a ramp between.
void scale_yarn(const RopeScaling& scaling, float theta, int64_t dim, RopeFrequencies& frequencies) {
  const auto dimension_of = [&](double turns) {
    const double context = static_cast<double>(scaling.original_context);
    return double(dim) * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(double(theta)));
  };
  const double low = std::max(std::floor(dimension_of(scaling.beta_fast)), 0.0);
  double high = std::min(std::ceil(dimension_of(scaling.beta_slow)), double(dim - 1));
  if (low == high) high += 0.001;
  for (size_t j = 0; j < frequencies.angles.size(); ++j) {
    const auto stretched = static_cast<float>(std::clamp((double(j) - low) / (high - low), 0.0, 1.0));
    float& angle = frequencies.angles[j];
    angle = angle / scaling.factor * stretched + angle * (1 - stretched);
  }
  frequencies.factor = scaling.attention_factor;
  if (frequencies.factor == 0) frequencies.factor = scaling.factor > 1 ? 0.1f * std::log(scaling.factor) + 1 : 1.0f;
}

// The theta for sequences as long as the context: transformers makes it for the longest sequence of each batch.
float dynamic_theta(const TransformerSpec& spec) {
  const RopeScaling& scaling = spec.rope_scaling;
  if (scaling.original_context == 0 || spec.max_positions <= scaling.original_context) return spec.rope_theta;
  const double stretch = double(spec.max_positions) / double(scaling.original_context);
  const auto dim = static_cast<double>(spec.head_dim);
  const double base = scaling.factor * stretch - (scaling.factor - 1.0);
  return static_cast<float>(spec.rope_theta * std::pow(base, dim / (dim - 2)));
}

TensorView make_table(ExecContext& ctx, const TransformerSpec& spec, int64_t positions, bool local) {
  const int64_t half = spec.head_dim / 2;
  const TensorView table = ctx.alloc(ctx.persistent, {positions, spec.head_dim}, DType::fp32, "rope table");
  if (ctx.dry) return table;
  const RopeFrequencies frequencies = rope_frequencies(spec, local);
  std::vector<float> values(static_cast<size_t>(table.numel()));
  for (int64_t position = 0; position < positions; ++position) {
    float* row = values.data() + position * spec.head_dim;
    for (int64_t j = 0; j < half; ++j) {
      const float angle = static_cast<float>(position) * frequencies.angles[static_cast<size_t>(j)];
      row[j] = std::cos(angle) * frequencies.factor;
      row[half + j] = std::sin(angle) * frequencies.factor;
    }
  }
  copy_to_device(ctx, table, values.data());
  return table;
}

TensorView make_buckets(ExecContext& ctx, const TransformerSpec& spec) {
  const TensorView table = ctx.alloc(ctx.persistent, {2 * spec.max_positions - 1}, DType::int32, "distance buckets");
  if (ctx.dry) return table;
  const DisentangledSpec& disentangled = spec.disentangled;
  const std::vector<int32_t> rows = bucket_table({.size = disentangled.buckets,
                                                  .max_distance = disentangled.max_distance,
                                                  .log_buckets = disentangled.log_buckets},
                                                 spec.max_positions);
  copy_to_device(ctx, table, rows.data());
  return table;
}

}  // namespace

RopeFrequencies rope_frequencies(const TransformerSpec& spec, bool local) {
  if (local) return {.angles = plain_angles(spec.local_rope_theta, spec.head_dim)};
  const RopeScaling& scaling = spec.rope_scaling;
  const float theta = scaling.kind == RopeScalingKind::dynamic ? dynamic_theta(spec) : spec.rope_theta;
  RopeFrequencies frequencies{.angles = plain_angles(theta, spec.head_dim)};
  switch (scaling.kind) {
    case RopeScalingKind::none:
    case RopeScalingKind::dynamic:
      break;
    case RopeScalingKind::linear:
      for (float& angle : frequencies.angles) angle /= scaling.factor;
      break;
    case RopeScalingKind::llama3:
      scale_llama3(scaling, frequencies.angles);
      break;
    case RopeScalingKind::yarn:
      scale_yarn(scaling, theta, spec.head_dim, frequencies);
      break;
  }
  return frequencies;
}

PositionTables make_position_tables(ExecContext& ctx, const TransformerSpec& spec, int64_t positions) {
  PositionTables tables;
  if (spec.disentangled.on()) tables.buckets = make_buckets(ctx, spec);
  if (spec.positions != PositionScheme::rope) return tables;
  tables.rope = make_table(ctx, spec, positions, false);
  if (std::ranges::count(spec.local_layers, true) > 0) tables.local_rope = make_table(ctx, spec, positions, true);
  return tables;
}

}  // namespace gradmill
