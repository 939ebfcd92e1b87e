// SPDX-License-Identifier: Apache-2.0
// Compares the angles of rotary positions with transformers, for scalings as in released models.
#include "models/position_tables.h"

#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "support/goldens.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

struct ScalingCase {
  const char* name;
  int64_t head_dim, context;
  float theta;
  RopeScaling scaling;
};

TEST(PositionTables, ScaledAngles) {
  const SafeTensors file(golden_path("rope_frequencies"));
  const ScalingCase cases[] = {
      {"linear", 256, 131072, 1e6f, {.kind = RopeScalingKind::linear, .factor = 8}},
      {"dynamic", 128, 3 * 2048, 1e4f, {.kind = RopeScalingKind::dynamic, .factor = 2, .original_context = 2048}},
      {"llama3", 128, 131072, 5e5f, {.kind = RopeScalingKind::llama3, .factor = 8, .original_context = 8192}},
      {"yarn", 128, 131072, 1e6f, {.kind = RopeScalingKind::yarn, .factor = 4, .original_context = 32768}},
  };
  for (const ScalingCase& one : cases) {
    TransformerSpec spec;
    spec.head_dim = one.head_dim;
    spec.max_positions = one.context;
    spec.rope_theta = one.theta;
    spec.rope_scaling = one.scaling;
    const RopeFrequencies frequencies = rope_frequencies(spec, false);
    const TensorView expected = file.at(one.name);
    expect_within_ulps(frequencies.angles, {expected.ptr<float>(), static_cast<size_t>(expected.numel())}, DType::fp32,
                       16, one.name);
    EXPECT_FLOAT_EQ(frequencies.factor, file.at(std::string(one.name) + ".factor").ptr<float>()[0]);
    // Local layers are never scaled.
    EXPECT_EQ(rope_frequencies(spec, true).angles[0], 1.0f);
    EXPECT_EQ(rope_frequencies(spec, true).factor, 1.0f);
  }
}

// Within the model's original context, dynamic scaling changes nothing.
TEST(PositionTables, DynamicWithinTheContext) {
  TransformerSpec spec;
  spec.head_dim = 64;
  spec.max_positions = 512;
  const RopeFrequencies plain = rope_frequencies(spec, false);
  spec.rope_scaling = {.kind = RopeScalingKind::dynamic, .factor = 4, .original_context = 512};
  EXPECT_EQ(rope_frequencies(spec, false).angles, plain.angles);
}

}  // namespace
}  // namespace gradmill::test
