// SPDX-License-Identifier: Apache-2.0
// DeviceSpec: the machine a step runs on, or is planned for. It need not be present.
#pragma once

#include <cstddef>
#include <string>

#include "core/dtype.h"

namespace gradmill {

enum class DeviceKind : uint8_t { cpu, cuda };

struct DeviceSpec {
  DeviceKind kind = DeviceKind::cpu;
  std::string name;            // as spelled in the catalogue and in --device
  std::string title;           // the product name
  int index = 0;               // index among the GPUs of this machine
  int compute_capability = 0;  // 90 for sm_90; 0 on a CPU
  int num_units = 1;           // multiprocessors, or cores
  size_t memory_bytes = 0;
  double bandwidth = 0;   // bytes/s of device memory
  double fp32_flops = 0;  // dense peaks
  double tf32_flops = 0;
  double half_flops = 0;     // bf16 and fp16 with fp32 accumulation
  double fp8_flops = 0;      // 0: not supported
  size_t library_bytes = 0;  // upper bound of GEMM and attention workspaces
  size_t driver_bytes = 0;   // context, modules, graphs: catalogued, measured where a GPU is present

  // Peak rate of dense matrix products with operands of this type. With `tf32`, fp32 operands use the tf32 rate where
  // the device has one.
  double matrix_flops(DType dtype, bool tf32 = false) const;
};

// This machine's CPU. The system reports cores and memory; the rates are estimates from the number of cores.
DeviceSpec host_cpu();

}  // namespace gradmill
