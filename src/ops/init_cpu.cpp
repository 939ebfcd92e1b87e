// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/rng.h"
#include "cpu/thread_pool.h"
#include "ops/init.h"

namespace gradmill {
namespace {

constexpr int64_t kChunk = 1 << 16;

// The factors on std for four neighbouring elements.
std::array<float, 4> spread(const RandomBlock& words, bool uniform) {
  if (uniform) {
    std::array<float, 4> values;
    for (size_t i = 0; i < 4; ++i) values[i] = 2 * to_uniform(words[i]) - 1;
    return values;
  }
  const auto low = to_normal(words[0], words[1]), high = to_normal(words[2], words[3]);
  return {low[0], low[1], high[0], high[1]};
}

template <class T>
void fill_chunk(const InitArgs& args, int64_t begin, int64_t end) {
  T* values = args.to.ptr<T>();
  if (args.std == 0) return std::fill(values + begin, values + end, T(args.mean));
  for (int64_t i = begin; i < end; i += 4) {
    const auto parts =
        spread(philox(args.seed, {static_cast<uint32_t>(i / 4), args.param, 0, RngSite::kInit}), args.uniform);
    for (int64_t j = i; j < std::min(i + 4, end); ++j) {
      values[j] = T(args.mean + args.std * parts[static_cast<size_t>(j - i)]);
    }
  }
}

}  // namespace

template <Device D, class T>
void init_values(ExecContext& ctx, const InitArgs& args) {
  const int64_t size = args.to.numel();
  ctx.pool->run((size + kChunk - 1) / kChunk,
                [&](int64_t chunk) { fill_chunk<T>(args, chunk * kChunk, std::min((chunk + 1) * kChunk, size)); });
}

template void init_values<Device::cpu, float>(ExecContext&, const InitArgs&);
template void init_values<Device::cpu, Bf16>(ExecContext&, const InitArgs&);
template void init_values<Device::cpu, Fp16>(ExecContext&, const InitArgs&);

}  // namespace gradmill
