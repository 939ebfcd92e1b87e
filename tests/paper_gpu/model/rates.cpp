// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/model/rates.h"

#include "core/gpu_catalogue.h"
#include "paper_gpu/paper_gpu.h"

namespace gradmill::paper::model {
namespace {

// Lanes per multiprocessor and cycle, from the programming guide's table of arithmetic instructions.
struct UnitRates {
  int compute_capability;
  double integer, fp32, half, fp64;
};
constexpr UnitRates kUnitRates[] = {{75, 64, 64, 64, 2},   {80, 64, 64, 128, 32},  {86, 64, 128, 64, 2},
                                    {89, 64, 128, 64, 2},  {90, 64, 128, 128, 64}, {100, 64, 128, 128, 64},
                                    {120, 128, 128, 64, 2}};

const DeviceSpec& spec() {
  static const DeviceSpec found = [] {
    const Kind& kind = gpu();
    constexpr double kMega = 1e6, kBitsAByte = 8, kTransfersACycle = 2;
    return describe_gpu({.title = std::string(kind.title),
                         .compute_capability = kind.compute_capability,
                         .num_units = kind.num_units,
                         .memory_bytes = kind.memory_mib << 20,
                         .clock = kind.clock_mhz * kMega,
                         .bandwidth = kind.memory_clock_mhz * kMega * kTransfersACycle * kind.bus_bits / kBitsAByte});
  }();
  return found;
}

}  // namespace

const Rates& rates() {
  static const Rates found = [] {
    Rates rates;
    UnitRates unit = kUnitRates[0];
    for (const UnitRates& each : kUnitRates) {
      if (each.compute_capability <= gpu().compute_capability) unit = each;
    }
    rates.num_units = spec().num_units;
    rates.clock = gpu().clock_mhz * 1e6;
    rates.bandwidth = spec().bandwidth;
    rates.integer = unit.integer;
    rates.fp32 = unit.fp32;
    rates.half = unit.half;
    rates.fp64 = unit.fp64;
    rates.has_warpgroups = gpu().compute_capability == 90;
    rates.half_flops = spec().half_flops / rates.num_units / rates.clock;
    return rates;
  }();
  return found;
}

double matrix_flops(uint32_t bits, bool tf32) {
  if (bits == 8 && spec().fp8_flops != 0) return spec().fp8_flops;
  if (bits <= 16) return spec().half_flops;
  return tf32 && spec().tf32_flops != 0 ? spec().tf32_flops : spec().fp32_flops;
}

}  // namespace gradmill::paper::model
