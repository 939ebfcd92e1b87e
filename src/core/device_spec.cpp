// SPDX-License-Identifier: Apache-2.0
#include "core/device_spec.h"

#include <unistd.h>

#include <algorithm>

namespace gradmill {

double DeviceSpec::matrix_flops(DType dtype, bool tf32) const {
  switch (dtype) {
    case DType::bf16:
    case DType::fp16:
      return half_flops;
    case DType::fp8_e4m3:
    case DType::fp8_e5m2:
      return fp8_flops;
    default:
      return tf32 && tf32_flops > 0 ? tf32_flops : fp32_flops;
  }
}

DeviceSpec host_cpu() {
  DeviceSpec spec;
  spec.name = "cpu";
  spec.title = "this machine's CPU";
  spec.num_units = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  spec.memory_bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  // A current core does two 8-wide fused multiply-adds per cycle at 3.2 GHz. A socket has about 20 GB/s per core, up to
  // 200.
  spec.fp32_flops = spec.tf32_flops = spec.half_flops = 102e9 * spec.num_units;
  spec.bandwidth = std::min(20e9 * spec.num_units, 200e9);
  return spec;
}

}  // namespace gradmill
