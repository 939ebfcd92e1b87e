// SPDX-License-Identifier: Apache-2.0
#include "core/gpu_catalogue.h"

#include <algorithm>
#include <cctype>
#include <cmath>
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

// Peaks are the vendor's dense figures. The half-precision rates of GeForce cards are those with fp32 accumulation,
// which is half of the advertised figure.
constexpr GpuRow kGpus[] = {
    {"v100", "Tesla V100 16GB", 70, 80, 16, 900, 15.7, 0, 125, 0},
    {"t4", "Tesla T4", 75, 40, 15, 320, 8.1, 0, 65, 0},
    {"rtx3060", "GeForce RTX 3060 12GB", 86, 28, 12, 360, 12.7, 12.7, 25.4, 0},
    {"rtx3070", "GeForce RTX 3070", 86, 46, 8, 448, 20.3, 20.3, 40.6, 0},
    {"rtx3080", "GeForce RTX 3080 10GB", 86, 68, 10, 760, 29.8, 29.8, 59.5, 0},
    {"rtx3090", "GeForce RTX 3090", 86, 82, 24, 936, 35.6, 35.6, 71, 0},
    {"rtx4060ti", "GeForce RTX 4060 Ti 16GB", 89, 34, 16, 288, 22.1, 22.1, 44.1, 88.2},
    {"rtx4070", "GeForce RTX 4070", 89, 46, 12, 504, 29.1, 29.1, 58.3, 116.6},
    {"rtx4080", "GeForce RTX 4080", 89, 76, 16, 717, 48.7, 48.7, 97.5, 194.9},
    {"rtx4080s", "GeForce RTX 4080 Super", 89, 80, 16, 736, 52.2, 52.2, 104.4, 208.9},
    {"rtx4090", "GeForce RTX 4090", 89, 128, 24, 1008, 82.6, 82.6, 165.2, 330.3},
    {"rtx5070ti", "GeForce RTX 5070 Ti", 120, 70, 16, 896, 43.9, 43.9, 87.9, 175.8},
    {"rtx5080", "GeForce RTX 5080", 120, 84, 16, 960, 56.3, 56.3, 112.6, 225.1},
    {"rtx5090", "GeForce RTX 5090", 120, 170, 31.8, 1792, 104.8, 104.8, 209.5, 419},
    {"a10", "A10", 86, 72, 22.5, 600, 31.2, 62.5, 125, 0},
    {"a6000", "RTX A6000", 86, 84, 47.5, 768, 38.7, 77.4, 154.8, 0},
    {"a100-40", "A100 40GB", 80, 108, 39.4, 1555, 19.5, 156, 312, 0},
    {"a100-80", "A100 80GB", 80, 108, 79.2, 2039, 19.5, 156, 312, 0},
    {"l4", "L4", 89, 58, 22.5, 300, 30.3, 60, 121, 242},
    {"l40s", "L40S", 89, 142, 44.4, 864, 91.6, 183, 362, 733},
    {"h100", "H100 SXM 80GB", 90, 132, 79.6, 3350, 66.9, 494, 989, 1979},
    {"h200", "H200 SXM 141GB", 90, 132, 139.8, 4800, 66.9, 494, 989, 1979},
};

// Memory that a run needs in addition to its slab.
void add_overheads(DeviceSpec& spec) {
  spec.library_bytes = library_workspace(spec.compute_capability);
  // The context, modules and graphs took 551 MiB on an H200.
  spec.driver_bytes = 576 * kMiB;
}

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
    add_overheads(spec);
    specs.push_back(spec);
  }
  return specs;
}

std::string letters_and_digits(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    const auto character = static_cast<unsigned char>(c);
    if (std::isalnum(character)) kept += static_cast<char>(std::tolower(character));
  }
  return kept;
}

// "NVIDIA GeForce RTX 4090" contains the catalogue's "rtx4090". So do the names of a Ti, a laptop version and a
// partition of the GPU, but these differ in the number of multiprocessors or the amount of memory.
const DeviceSpec* find_in_catalogue(const GpuTraits& traits) {
  const std::string title = letters_and_digits(traits.title);
  for (const DeviceSpec& spec : gpu_catalogue()) {
    const std::string name = letters_and_digits(spec.name.substr(0, spec.name.find('-')));
    const double memory = double(traits.memory_bytes) / double(spec.memory_bytes);
    if (title.find(name) != std::string::npos && traits.num_units == spec.num_units && std::abs(memory - 1) < 0.1) {
      return &spec;
    }
  }
  return nullptr;
}

// FLOPs per multiprocessor and cycle: of the fp32 units, and of the matrix units with 16-bit operands and fp32 sums.
struct UnitRates {
  int compute_capability;
  double fp32, half;
};
constexpr UnitRates kUnitRates[] = {{70, 128, 1024}, {80, 128, 2048},  {86, 256, 1024},
                                    {90, 256, 4096}, {100, 256, 8192}, {120, 256, 1024}};

void estimate_rates(DeviceSpec& spec, double clock) {
  UnitRates unit = kUnitRates[0];
  for (const UnitRates& rates : kUnitRates) {
    if (rates.compute_capability <= spec.compute_capability) unit = rates;
  }
  // GeForce cards accumulate 16-bit products in fp32 at half the rate.
  if (spec.compute_capability >= 75 && spec.title.find("GeForce") != std::string::npos) unit.half /= 2;
  const double cycles = clock * spec.num_units;
  spec.fp32_flops = unit.fp32 * cycles;
  spec.half_flops = unit.half * cycles;
  if (spec.compute_capability >= 80) spec.tf32_flops = spec.half_flops / 2;
  if (spec.compute_capability >= 89) spec.fp8_flops = spec.half_flops * 2;
}

}  // namespace

size_t library_workspace(int compute_capability) {
  const int major = compute_capability / 10;
  return (major == 9 || major == 10 ? 32 : 4) * kMiB;
}

std::span<const DeviceSpec> gpu_catalogue() {
  static const std::vector<DeviceSpec> specs = build_catalogue();
  return specs;
}

DeviceSpec describe_gpu(const GpuTraits& traits) {
  const DeviceSpec* const known = find_in_catalogue(traits);
  DeviceSpec spec = known != nullptr ? *known : DeviceSpec{};
  spec.kind = DeviceKind::cuda;
  spec.title = traits.title;
  spec.compute_capability = traits.compute_capability;
  spec.num_units = traits.num_units;
  spec.memory_bytes = traits.memory_bytes;
  if (known != nullptr) return spec;
  spec.name = letters_and_digits(traits.title);
  spec.bandwidth = traits.bandwidth;
  estimate_rates(spec, traits.clock);
  add_overheads(spec);
  return spec;
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
