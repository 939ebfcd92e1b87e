// SPDX-License-Identifier: Apache-2.0
// The angles of rotary positions, and how families stretch them to contexts longer than those they were made for.
#pragma once

#include <vector>

#include "core/exec_context.h"
#include "models/transformer_spec.h"
#include "nn/pass.h"

namespace gradmill {

struct RopeFrequencies {
  std::vector<float> angles;  // (D / 2) radians a position
  float factor = 1;           // of cosines and sines
};
// `local`: those of local layers, which are never scaled.
RopeFrequencies rope_frequencies(const TransformerSpec& spec, bool local);

// In persistent memory: what the model has of them, for rows at the first `positions` positions.
PositionTables make_position_tables(ExecContext& ctx, const TransformerSpec& spec, int64_t positions);

}  // namespace gradmill
