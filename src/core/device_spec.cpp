// SPDX-License-Identifier: Apache-2.0
// The catalogue of devices. Peaks are the vendors' dense figures.
#include "core/device_spec.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "core/error.h"

namespace gradmill {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kGiB = size_t{1} << 30;

struct GpuRow {
  const char* name;
  const char* title;
  int compute_capability, num_units;
  double memory_gib, bandwidth_gbs, fp32_tflops, tf32_tflops, half_tflops, fp8_tflops;
};

// GeForce half rates are those with fp32 accumulation, which is half of the headline figure.
constexpr GpuRow kGpus[] = {
    {"v100", "Tesla V100 16GB", 70, 80, 16, 900, 15.7, 0, 125, 0},
    {"t4", "Tesla T4", 75, 40, 15, 320, 8.1, 0, 65, 0},
    {"rtx3060", "GeForce RTX 3060 12GB", 86, 28, 12, 360, 12.7, 12.7, 25.4, 0},
    {"rtx3090", "GeForce RTX 3090", 86, 82, 24, 936, 35.6, 35.6, 71, 0},
    {"rtx4060ti", "GeForce RTX 4060 Ti 16GB", 89, 34, 16, 288, 22.1, 22.1, 44.1, 88.2},
    {"rtx4080s", "GeForce RTX 4080 Super", 89, 80, 16, 736, 52.2, 52.2, 104.4, 208.9},
    {"rtx4090", "GeForce RTX 4090", 89, 128, 24, 1008, 82.6, 82.6, 165.2, 330.3},
    {"rtx5080", "GeForce RTX 5080", 120, 84, 16, 960, 56.3, 56.3, 112.6, 225.1},
    {"rtx5090", "GeForce RTX 5090", 120, 170, 31.8, 1792, 104.8, 104.8, 209.5, 419},
    {"a100-40", "A100 40GB", 80, 108, 39.4, 1555, 19.5, 156, 312, 0},
    {"a100-80", "A100 80GB", 80, 108, 79.2, 2039, 19.5, 156, 312, 0},
    {"l4", "L4", 89, 58, 22.5, 300, 30.3, 60, 121, 242},
    {"l40s", "L40S", 89, 142, 44.4, 864, 91.6, 183, 362, 733},
    {"h100", "H100 SXM 80GB", 90, 132, 79.6, 3350, 66.9, 494, 989, 1979},
    {"h200", "H200 SXM 141GB", 90, 132, 139.8, 4800, 66.9, 494, 989, 1979},
};

std::vector<DeviceSpec> build_catalogue() {
  std::vector<DeviceSpec> specs;
  for (const GpuRow& row : kGpus) {
    DeviceSpec spec;
    spec.kind = DeviceKind::cuda;
    spec.name = row.name;
    spec.title = row.title;
    spec.compute_capability = row.compute_capability;
    spec.num_units = row.num_units;
    spec.memory_bytes = static_cast<size_t>(row.memory_gib * double(kGiB));
    spec.bandwidth = row.bandwidth_gbs * 1e9;
    spec.fp32_flops = row.fp32_tflops * 1e12;
    spec.tf32_flops = row.tf32_tflops * 1e12;
    spec.half_flops = row.half_tflops * 1e12;
    spec.fp8_flops = row.fp8_tflops * 1e12;
    // cuBLASLt wants 32 MiB on Hopper and 4 MiB elsewhere; context, modules and graphs took 551 MiB on an H200.
    spec.library_bytes = (row.compute_capability == 90 ? 32 : 4) * kMiB;
    spec.driver_bytes = 576 * kMiB;
    specs.push_back(spec);
  }
  return specs;
}

}  // namespace

double DeviceSpec::matrix_flops(DType dtype) const {
  switch (dtype) {
    case DType::bf16:
    case DType::fp16:
      return half_flops;
    case DType::fp8_e4m3:
    case DType::fp8_e5m2:
      return fp8_flops;
    default:
      return fp32_flops;
  }
}

DeviceSpec host_cpu() {
  DeviceSpec spec;
  spec.name = "cpu";
  spec.title = "this machine's CPU";
  spec.num_units = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  spec.memory_bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  // A current core: two 8-wide fused multiply-adds at 3.2 GHz; a socket shares some 20 GB/s per core up to 200.
  spec.fp32_flops = spec.tf32_flops = spec.half_flops = 102e9 * spec.num_units;
  spec.bandwidth = std::min(20e9 * spec.num_units, 200e9);
  return spec;
}

std::span<const DeviceSpec> gpu_catalogue() {
  static const std::vector<DeviceSpec> specs = build_catalogue();
  return specs;
}

DeviceSpec device_by_name(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "cpu") return host_cpu();
  std::string known = "cpu";
  for (const DeviceSpec& spec : gpu_catalogue()) {
    if (spec.name == lower) return spec;
    known += ", " + spec.name;
  }
  throw usage_error(fmt::format("unknown device '{}'", name), "choose one of: " + known);
}

}  // namespace gradmill
