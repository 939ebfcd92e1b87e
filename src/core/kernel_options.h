// SPDX-License-Identifier: Apache-2.0
// What a run says about how ops compute, as opposed to what. Every choice gives the same result up to rounding.
#pragma once

#include <cstdint>

namespace gradmill {

// automatic: the fastest that can do the job. math materialises the T×T matrix: slow, and large; a baseline.
enum class AttentionBackend : uint8_t { automatic, cudnn, flash, math };

struct KernelOptions {
  AttentionBackend attention = AttentionBackend::automatic;
  bool tf32 = true;            // fp32 products on matrix units with 10-bit mantissas, where the GPU has them
  bool deterministic = false;  // the same bits from run to run, also where that is slower
  bool fused_adamw = true;
  bool fused_activations = true;  // inside the products around them, where that is faster
  bool norms_in_products = true;  // norms of narrow models inside the products before them
  bool batched_gradients = true;  // of small weights: those of all blocks in one product
};

}  // namespace gradmill
