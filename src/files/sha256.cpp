// SPDX-License-Identifier: Apache-2.0
// The names a..h, w and the two pairs of sigmas are from FIPS 180-4, section 6.2.
#include "files/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace gradmill {
namespace {

using State = std::array<uint32_t, 8>;

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const std::byte* bytes) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | std::to_integer<uint32_t>(bytes[i]);
  return word;
}

void compress(State& state, const std::byte* block) {
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t sigma0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t sigma1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
    const uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const State added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

void Sha256::add(std::span<const std::byte> bytes) {
  const size_t held = num_bytes_ % kBlock;
  num_bytes_ += bytes.size();
  if (held > 0) {
    const size_t count = std::min(bytes.size(), kBlock - held);
    std::ranges::copy(bytes.first(count), rest_.begin() + static_cast<ptrdiff_t>(held));
    if (held + count < kBlock) return;
    compress(state_, rest_.data());
    bytes = bytes.subspan(count);
  }
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) compress(state_, bytes.data());
  std::ranges::copy(bytes, rest_.begin());
}

std::string Sha256::hex() {
  // The remaining bytes, a one bit, zeros, and the length in bits. They fill one block, or two if they do not fit.
  std::array<std::byte, 2 * kBlock> last{};
  const size_t held = num_bytes_ % kBlock;
  std::ranges::copy(std::span(rest_).first(held), last.begin());
  last[held] = std::byte{0x80};
  const size_t end = held + 9 <= kBlock ? kBlock : 2 * kBlock;
  const uint64_t num_bits = num_bytes_ * 8;
  for (size_t i = 0; i < 8; ++i) last[end - 1 - i] = static_cast<std::byte>(num_bits >> 8 * i);
  for (size_t at = 0; at < end; at += kBlock) compress(state_, last.data() + at);

  std::string hex;
  for (uint32_t word : state_) hex += fmt::format("{:08x}", word);
  return hex;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

}  // namespace gradmill
