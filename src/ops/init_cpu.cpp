// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <span>

#include "core/rng.h"
#include "cpu/thread_pool.h"
#include "ops/init.h"

namespace gradmill {
namespace {

constexpr int64_t kChunk = 1 << 16;

RandomBlock words_of(const InitArgs& args, int64_t block) {
  return philox(args.seed, {static_cast<uint32_t>(block), args.param, 0, RngSite::kInit});
}

template <class T>
void fill_uniform(const InitArgs& args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += 4) {
    const RandomBlock words = words_of(args, i / 4);
    for (int64_t j = i; j < std::min(i + 4, end); ++j) {
      const float part = 2 * to_uniform(words[static_cast<size_t>(j - i)]) - 1;
      args.to.ptr<T>()[j] = T(args.mean + args.std * part);
    }
  }
}

// Two words make two values. Sines branch on the octant of their angle, which is in the second word's high bits: a
// processor that meets one octant after the other guesses right, and takes three quarters of the time.
template <class T>
void fill_normal(const InitArgs& args, int64_t begin, int64_t end) {
  constexpr int64_t kPairs = 512;
  constexpr size_t kOctants = 8;
  std::array<std::array<uint32_t, 2>, kPairs> words;
  std::array<std::array<uint16_t, kPairs>, kOctants> pairs;
  for (int64_t first = begin; first < end; first += 2 * kPairs) {
    std::array<size_t, kOctants> counts{};
    const auto add = [&](size_t pair, uint32_t a, uint32_t b) {
      const size_t octant = b >> 29;
      words[pair] = {a, b};
      pairs[octant][counts[octant]++] = static_cast<uint16_t>(pair);
    };
    const int64_t last = std::min(first + 2 * kPairs, end);
    for (int64_t i = first; i < last; i += 4) {
      const RandomBlock block = words_of(args, i / 4);
      const auto pair = static_cast<size_t>(i - first) / 2;
      add(pair, block[0], block[1]);
      if (i + 2 < last) add(pair + 1, block[2], block[3]);
    }
    for (size_t octant = 0; octant < kOctants; ++octant) {
      for (const uint16_t pair : std::span(pairs[octant]).first(counts[octant])) {
        const std::array<float, 2> parts = to_normal(words[pair][0], words[pair][1]);
        T* const values = args.to.ptr<T>() + first + 2 * pair;
        values[0] = T(args.mean + args.std * parts[0]);
        if (first + 2 * pair + 1 < last) values[1] = T(args.mean + args.std * parts[1]);
      }
    }
  }
}

template <class T>
void fill_chunk(const InitArgs& args, int64_t begin, int64_t end) {
  T* values = args.to.ptr<T>();
  if (args.std == 0) return std::fill(values + begin, values + end, T(args.mean));
  if (args.uniform) return fill_uniform<T>(args, begin, end);
  fill_normal<T>(args, begin, end);
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
