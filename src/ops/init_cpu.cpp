// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/rng.h"
#include "cpu/thread_pool.h"
#include "ops/init.h"

namespace gradmill {
namespace {

constexpr int64_t kChunk = 1 << 16;

void fill_chunk(const InitArgs& args, int64_t begin, int64_t end) {
  float* values = args.to.ptr<float>();
  if (args.std == 0) return std::fill(values + begin, values + end, args.mean);
  for (int64_t i = begin; i < end; i += 4) {
    const RandomBlock words = philox(args.seed, {static_cast<uint32_t>(i / 4), args.param, 0, RngSite::kInit});
    const auto low = to_normal(words[0], words[1]), high = to_normal(words[2], words[3]);
    const float normals[4] = {low[0], low[1], high[0], high[1]};
    for (int64_t j = i; j < std::min(i + 4, end); ++j) values[j] = args.mean + args.std * normals[j - i];
  }
}

}  // namespace

template <>
void init_values<Device::cpu, float>(ExecContext& ctx, const InitArgs& args) {
  const int64_t size = args.to.numel();
  ctx.pool->run((size + kChunk - 1) / kChunk,
                [&](int64_t chunk) { fill_chunk(args, chunk * kChunk, std::min((chunk + 1) * kChunk, size)); });
}

}  // namespace gradmill
