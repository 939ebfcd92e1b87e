// SPDX-License-Identifier: Apache-2.0
// The amount of shared memory per multiprocessor for each kind of GPU.
#pragma once

#include <cstddef>

namespace gradmill::cuda {

// The bytes that a block may request at launch if its kernel declares at most 1 KiB statically. A multiprocessor has 2
// KiB more than this and reserves 1 KiB per block.
inline size_t shared_limit(int compute_capability) {
  const auto kilobytes = [&]() -> size_t {
    if (compute_capability >= 120) return 99;
    if (compute_capability >= 90) return 227;
    if (compute_capability == 80 || compute_capability == 87) return 163;
    return compute_capability >= 86 ? 99 : 64;
  };
  return (kilobytes() - 1) * 1024;
}

}  // namespace gradmill::cuda
