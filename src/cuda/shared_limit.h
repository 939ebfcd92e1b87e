// SPDX-License-Identifier: Apache-2.0
// How much shared memory the multiprocessors of each kind of GPU have.
#pragma once

#include <cstddef>

namespace gradmill::cuda {

// Bytes that a block may ask for at launch if its kernel declares no more than 1 KiB itself. A multiprocessor has 2 KiB
// more than that and keeps 1 KiB a block for itself.
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
