// SPDX-License-Identifier: Apache-2.0
// Block formats. Factors are multiplied in the order of the reference, so that values are the same bit for bit.
#include "model_files/gguf/gguf_types.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>

#include "model_files/float_rows.h"

namespace gradmill {
namespace {

constexpr std::array kBlocks = {
    GgmlBlock{GgmlType::f32, "F32", 1, 4},       GgmlBlock{GgmlType::f16, "F16", 1, 2},
    GgmlBlock{GgmlType::bf16, "BF16", 1, 2},     GgmlBlock{GgmlType::f64, "F64", 1, 8},
    GgmlBlock{GgmlType::q4_0, "Q4_0", 32, 18},   GgmlBlock{GgmlType::q4_1, "Q4_1", 32, 20},
    GgmlBlock{GgmlType::q8_0, "Q8_0", 32, 34},   GgmlBlock{GgmlType::q4_k, "Q4_K", 256, 144},
    GgmlBlock{GgmlType::q6_k, "Q6_K", 256, 210},
};

using Bytes = const uint8_t*;

float read_half(Bytes bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return fp16_bits_to_float(bits);
}

void q4_0(Bytes block, float* out) {
  const float scale = read_half(block);
  for (int i = 0; i < 16; ++i) {
    const int packed = block[2 + i];
    out[i] = scale * static_cast<float>((packed & 15) - 8);
    out[i + 16] = scale * static_cast<float>((packed >> 4) - 8);
  }
}

void q4_1(Bytes block, float* out) {
  const float scale = read_half(block), least = read_half(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int packed = block[4 + i];
    out[i] = scale * static_cast<float>(packed & 15) + least;
    out[i + 16] = scale * static_cast<float>(packed >> 4) + least;
  }
}

void q8_0(Bytes block, float* out) {
  const float scale = read_half(block);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// Eight parts of 32 values, each with a scale and a minimum of 6 bits, packed into 12 bytes.
struct ScaleAndMin {
  int scale, least;
};
ScaleAndMin unpack_6bit(Bytes packed, int part) {
  if (part < 4) return {packed[part] & 63, packed[part + 4] & 63};
  return {(packed[part + 4] & 15) | ((packed[part - 4] >> 6) << 4),
          (packed[part + 4] >> 4) | ((packed[part] >> 6) << 4)};
}

void q4_k(Bytes block, float* out) {
  const float scale = read_half(block), least = read_half(block + 2);
  for (int part = 0; part < 8; ++part) {
    const ScaleAndMin packed = unpack_6bit(block + 4, part);
    const float part_scale = scale * static_cast<float>(packed.scale),
                part_min = least * static_cast<float>(packed.least);
    const Bytes values = block + 16 + part / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int value = part % 2 == 0 ? values[i] & 15 : values[i] >> 4;
      out[part * 32 + i] = part_scale * static_cast<float>(value) - part_min;
    }
  }
}

void q6_k(Bytes block, float* out) {
  const float scale = read_half(block + 208);
  for (int half = 0; half < 2; ++half) {
    const Bytes low = block + half * 64, high = block + 128 + half * 32, scales = block + 192 + half * 8;
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int i = 0; i < 32; ++i) {
        const int packed = low[(quarter % 2) * 32 + i];
        const int value = ((quarter < 2 ? packed & 15 : packed >> 4) | (((high[i] >> (2 * quarter)) & 3) << 4)) - 32;
        const auto part_scale = static_cast<float>(static_cast<int8_t>(scales[2 * quarter + i / 16]));
        out[half * 128 + quarter * 32 + i] = scale * part_scale * static_cast<float>(value);
      }
    }
  }
}

void each_block(std::span<const std::byte> bytes, const GgmlBlock& block, float* out, void (*unpack)(Bytes, float*)) {
  for (size_t at = 0; at + block.bytes <= bytes.size(); at += block.bytes, out += block.values) {
    unpack(reinterpret_cast<Bytes>(bytes.data()) + at, out);
  }
}

}  // namespace

const GgmlBlock* find_ggml_block(uint32_t type) {
  const auto found = std::find_if(kBlocks.begin(), kBlocks.end(),
                                  [&](const GgmlBlock& block) { return static_cast<uint32_t>(block.type) == type; });
  return found == kBlocks.end() ? nullptr : &*found;
}

void dequantise(GgmlType type, std::span<const std::byte> blocks, float* out) {
  const GgmlBlock& block = *find_ggml_block(static_cast<uint32_t>(type));
  switch (type) {
    case GgmlType::f32:
      return widen(FloatType::f32, blocks, out);
    case GgmlType::f16:
      return widen(FloatType::f16, blocks, out);
    case GgmlType::bf16:
      return widen(FloatType::bf16, blocks, out);
    case GgmlType::f64:
      return widen(FloatType::f64, blocks, out);
    case GgmlType::q4_0:
      return each_block(blocks, block, out, q4_0);
    case GgmlType::q4_1:
      return each_block(blocks, block, out, q4_1);
    case GgmlType::q8_0:
      return each_block(blocks, block, out, q8_0);
    case GgmlType::q4_k:
      return each_block(blocks, block, out, q4_k);
    case GgmlType::q6_k:
      return each_block(blocks, block, out, q6_k);
  }
}

void quantise_q8_0(std::span<const float> values, std::byte* out) {
  assert(values.size() % 32 == 0);
  for (size_t at = 0; at < values.size(); at += 32, out += 34) {
    const std::span<const float> block = values.subspan(at, 32);
    float largest = 0;
    for (const float value : block) largest = std::max(largest, std::abs(value));
    const float scale = largest / 127, inverse = scale == 0 ? 0 : 1 / scale;
    const uint16_t stored = float_to_fp16_bits(scale);
    std::memcpy(out, &stored, sizeof stored);
    for (size_t i = 0; i < 32; ++i) {
      const auto value = static_cast<int8_t>(std::round(block[i] * inverse));
      std::memcpy(out + 2 + i, &value, 1);
    }
  }
}

}  // namespace gradmill
