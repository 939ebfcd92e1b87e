// SPDX-License-Identifier: Apache-2.0
// Settings of a run that choose how ops compute, not what they compute. All choices give the same result up to
// rounding.
#pragma once

#include <cstdint>

namespace gradmill {

// automatic: the fastest backend that supports the case. math: materialises the T×T matrix, which is slow and large; it
// serves as a baseline.
enum class AttentionBackend : uint8_t { automatic, cudnn, flash, math };

struct KernelOptions {
  AttentionBackend attention = AttentionBackend::automatic;
  bool tf32 = true;            // fp32 GEMMs on matrix units with 10-bit mantissas, where the GPU has them
  bool deterministic = false;  // the same bits in every run, even where that is slower
  bool fused_adamw = true;
  bool fused_activations = true;  // fuses activations into the GEMMs around them, where that is faster
  bool norms_in_products = true;  // fuses the norms of narrow models into the GEMMs before them
  bool batched_gradients = true;  // computes the weight gradients of small weights for all blocks in one GEMM
};

}  // namespace gradmill
