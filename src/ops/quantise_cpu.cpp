// SPDX-License-Identifier: Apache-2.0
// Quantised frozen weights on the CPU: the reference implementation.
#include <algorithm>
#include <cmath>

#include "cpu/reduce.h"
#include "cpu/thread_pool.h"
#include "ops/quantise.h"

namespace gradmill {
namespace {

constexpr int64_t kTaskBlocks = 256;  // nf4 blocks per task

template <class T>
float largest(const T* values, int64_t count) {
  float result = 0;
  for (int64_t i = 0; i < count; ++i) result = std::max(result, std::abs(float(values[i])));
  return result;
}

template <class T>
void quantise_row(const T* values, int64_t cols, int8_t* codes, float& scale) {
  const float absmax = largest(values, cols), factor = absmax > 0 ? 127.0f / absmax : 0.0f;
  scale = absmax / 127.0f;
  for (int64_t c = 0; c < cols; ++c) codes[c] = static_cast<int8_t>(std::nearbyint(float(values[c]) * factor));
}

// The index of the nearest quantile; of two equally near ones, the lower.
uint32_t nearest_nf4(float value) {
  uint32_t code = 0;
  for (size_t i = 0; i + 1 < 16; ++i) code += value > 0.5f * (kNf4Values[i] + kNf4Values[i + 1]) ? 1 : 0;
  return code;
}

template <class T>
void quantise_block(const T* values, int64_t count, uint8_t* codes, float& scale) {
  scale = largest(values, count);
  const float factor = scale > 0 ? 1.0f / scale : 0.0f;
  for (int64_t i = 0; i < count; i += 2) {
    const uint32_t high = nearest_nf4(float(values[i]) * factor);
    const uint32_t low = i + 1 < count ? nearest_nf4(float(values[i + 1]) * factor) : 7;
    codes[i / 2] = static_cast<uint8_t>(high << 4 | low);
  }
}

// Calls visit(block, first element, elements) for all blocks, over all threads.
template <class Visit>
void for_each_block(ExecContext& ctx, int64_t size, Visit&& visit) {
  const int64_t blocks = (size + kNf4Block - 1) / kNf4Block;
  cpu::parallel_for(*ctx.pool, blocks, kTaskBlocks, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      visit(block, block * kNf4Block, std::min(kNf4Block, size - block * kNf4Block));
    }
  });
}

}  // namespace

template <Device D, class T>
void quantise(ExecContext& ctx, const QuantiseArgs& args) {
  float* scales = args.scales.ptr<float>();
  if (args.format == WeightFormat::int8) {
    const int64_t cols = args.values.cols();
    cpu::parallel_for(*ctx.pool, args.values.rows(), cpu::rows_per_task(cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        quantise_row(args.values.row<T>(r), cols, args.codes.row<int8_t>(r), scales[r]);
      }
    });
    return;
  }
  auto* codes = reinterpret_cast<uint8_t*>(args.codes.ptr<int8_t>());
  for_each_block(ctx, args.values.numel(), [&](int64_t block, int64_t first, int64_t count) {
    quantise_block(args.values.ptr<T>() + first, count, codes + first / 2, scales[block]);
  });
}

template <Device D, class T>
void dequantise(ExecContext& ctx, const QuantiseArgs& args) {
  const float* scales = args.scales.ptr<float>();
  if (args.format == WeightFormat::int8) {
    const int64_t cols = args.values.cols();
    cpu::parallel_for(*ctx.pool, args.values.rows(), cpu::rows_per_task(cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int8_t* codes = args.codes.row<int8_t>(r);
        T* values = args.values.row<T>(r);
        for (int64_t c = 0; c < cols; ++c) values[c] = T(static_cast<float>(codes[c]) * scales[r]);
      }
    });
    return;
  }
  const auto* codes = reinterpret_cast<const uint8_t*>(args.codes.ptr<int8_t>());
  for_each_block(ctx, args.values.numel(), [&](int64_t block, int64_t first, int64_t count) {
    T* values = args.values.ptr<T>() + first;
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t byte = codes[(first + i) / 2];
      values[i] = T(kNf4Values[i % 2 == 0 ? byte >> 4 : byte & 15] * scales[block]);
    }
  });
}

template void quantise<Device::cpu, float>(ExecContext&, const QuantiseArgs&);
template void quantise<Device::cpu, Bf16>(ExecContext&, const QuantiseArgs&);
template void quantise<Device::cpu, Fp16>(ExecContext&, const QuantiseArgs&);
template void dequantise<Device::cpu, float>(ExecContext&, const QuantiseArgs&);
template void dequantise<Device::cpu, Bf16>(ExecContext&, const QuantiseArgs&);
template void dequantise<Device::cpu, Fp16>(ExecContext&, const QuantiseArgs&);

}  // namespace gradmill
