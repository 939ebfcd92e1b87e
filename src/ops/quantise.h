// SPDX-License-Identifier: Apache-2.0
// Quantised frozen weights. int8: code = round(127 v / absmax of the row). nf4 (the format of bitsandbytes): the
// nearest of 16 quantiles of a normal distribution times the absmax of 64 neighbours in the flattened matrix; two codes
// per byte, the first one in the high half.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"
#include "core/weight_format.h"

namespace gradmill {

inline constexpr int64_t kNf4Block = 64;

// For a matrix (rows, cols). Codes are bytes, scales fp32 (int8: absmax / 127; nf4: absmax).
struct QuantisedShapes {
  Shape codes, scales;
};
QuantisedShapes quantised_shapes(WeightFormat format, int64_t rows, int64_t cols);

struct QuantiseArgs {
  TensorView values;  // (rows, cols), contiguous
  TensorView codes, scales;
  WeightFormat format = WeightFormat::int8;
};
// Computes codes and scales from values.
void quantise(ExecContext& ctx, const QuantiseArgs& args);
// Computes values from codes and scales, rounded to their dtype.
void dequantise(ExecContext& ctx, const QuantiseArgs& args);

template <Device D, class T>
void quantise(ExecContext& ctx, const QuantiseArgs& args);
template <Device D, class T>
void dequantise(ExecContext& ctx, const QuantiseArgs& args);

// The quantiles as defined by Dettmers et al., "QLoRA": 8 below zero, 0, and 7 above, scaled to [-1, 1].
inline constexpr float kNf4Values[16] = {-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};

}  // namespace gradmill
