// SPDX-License-Identifier: Apache-2.0
// The peak rates of the paper GPU, from its data sheet.
#pragma once

#include <cstdint>

namespace gradmill::paper::model {

struct Rates {
  double num_units = 1;
  double clock = 1;      // cycles/s
  double bandwidth = 1;  // bytes/s of device memory
  // Per multiprocessor and cycle:
  double issue = 4;                             // instructions of warps
  double integer = 64, fp32 = 128, half = 128;  // lanes
  double special = 16, convert = 64, exchange = 32, fp64 = 2;
  double shared = 1;            // accesses of 128 bytes
  double l1_bytes = 128;        // of global memory, from the multiprocessor's own cache
  double l2_bytes = 64;         // from the shared L2 cache
  bool has_warpgroups = false;  // warpgroup products, which are faster than those of single warps
  double half_flops = 1024;     // of matrix units, fp16 and bf16 with fp32 sums
};

const Rates& rates();  // for the GPU that PAPER_GPU names

// FLOP/s of the matrix units for operands of `bits` bits. 32 bits without tf32 means the fp32 units.
double matrix_flops(uint32_t bits, bool tf32 = false);

}  // namespace gradmill::paper::model
