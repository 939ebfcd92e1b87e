// SPDX-License-Identifier: Apache-2.0
#include "core/gpu_catalogue.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace gradmill {
namespace {

constexpr size_t kGiB = size_t{1} << 30;

TEST(GpuCatalogue, IsPlausible) {
  std::set<std::string> names;
  for (const DeviceSpec& spec : gpu_catalogue()) {
    SCOPED_TRACE(spec.name);
    EXPECT_TRUE(names.insert(spec.name).second);
    EXPECT_EQ(spec.kind, DeviceKind::cuda);
    EXPECT_FALSE(spec.title.empty());
    EXPECT_GE(spec.compute_capability, 70);
    EXPECT_GT(spec.num_units, 10);
    EXPECT_GT(spec.memory_bytes, spec.driver_bytes + spec.library_bytes);
    EXPECT_GT(spec.bandwidth, 1e11);
    EXPECT_GT(spec.half_flops, spec.fp32_flops);
    // fp8 units were introduced with Ada and Hopper.
    EXPECT_EQ(spec.fp8_flops > 0, spec.compute_capability >= 89);
    EXPECT_EQ(spec.tf32_flops > 0, spec.compute_capability >= 80);
  }
  EXPECT_TRUE(names.contains("h100"));
}

// The names as drivers spell them.
TEST(GpuCatalogue, KnowsAGpuThatIsHere) {
  const auto name_of = [](const char* title, int capability, int units, double gib) {
    return describe_gpu({.title = title,
                         .compute_capability = capability,
                         .num_units = units,
                         .memory_bytes = static_cast<size_t>(gib * double(kGiB))})
        .name;
  };
  EXPECT_EQ(name_of("NVIDIA H200", 90, 132, 139.8), "h200");
  EXPECT_EQ(name_of("NVIDIA H100 80GB HBM3", 90, 132, 79.1), "h100");
  EXPECT_EQ(name_of("NVIDIA A100-SXM4-40GB", 80, 108, 39.4), "a100-40");
  EXPECT_EQ(name_of("NVIDIA A100 80GB PCIe", 80, 108, 79.2), "a100-80");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 3090", 86, 82, 23.6), "rtx3090");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 4080", 89, 76, 15.6), "rtx4080");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 4080 SUPER", 89, 80, 15.6), "rtx4080s");
  EXPECT_EQ(name_of("NVIDIA L4", 89, 58, 22.2), "l4");
  EXPECT_EQ(name_of("NVIDIA L40S", 89, 142, 44.4), "l40s");
}

// A GPU with another number of multiprocessors or another memory size is a different GPU, whatever its name begins
// with.
TEST(GpuCatalogue, TellsLikeNamesApart) {
  const auto catalogued = [](const char* title, int capability, int units, double gib) {
    const std::string name = describe_gpu({.title = title,
                                           .compute_capability = capability,
                                           .num_units = units,
                                           .memory_bytes = static_cast<size_t>(gib * double(kGiB))})
                                 .name;
    for (const DeviceSpec& spec : gpu_catalogue()) {
      if (spec.name == name) return true;
    }
    return false;
  };
  EXPECT_FALSE(catalogued("NVIDIA GeForce RTX 3090 Ti", 86, 84, 23.6));
  EXPECT_FALSE(catalogued("NVIDIA GeForce RTX 4070 Ti", 89, 60, 11.7));
  EXPECT_FALSE(catalogued("NVIDIA GeForce RTX 5090 Laptop GPU", 120, 82, 23.9));
  EXPECT_FALSE(catalogued("NVIDIA L40", 89, 142, 44.5));
  EXPECT_FALSE(catalogued("NVIDIA H100 PCIe", 90, 114, 79.2));
  EXPECT_FALSE(catalogued("NVIDIA H100 NVL", 90, 132, 93.1));
  EXPECT_FALSE(catalogued("NVIDIA A10G", 86, 80, 22.2));
  EXPECT_FALSE(catalogued("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 90, 60, 39.5));
}

// The rates computed for a GPU of which only clocks are known agree with the vendor's figures for known GPUs.
TEST(GpuCatalogue, ReckonsRatesOfOthers) {
  const std::map<std::string, double> boost_ghz = {
      {"v100", 1.53},     {"t4", 1.59},         {"rtx3060", 1.777}, {"rtx3070", 1.725}, {"rtx3080", 1.71},
      {"rtx3090", 1.695}, {"rtx4060ti", 2.535}, {"rtx4070", 2.475}, {"rtx4080", 2.505}, {"rtx4080s", 2.55},
      {"rtx4090", 2.52},  {"rtx5070ti", 2.452}, {"rtx5080", 2.617}, {"rtx5090", 2.407}, {"a10", 1.695},
      {"a6000", 1.80},    {"a100-40", 1.41},    {"a100-80", 1.41},  {"l4", 2.04},       {"l40s", 2.52},
      {"h100", 1.83},     {"h200", 1.83}};
  for (const DeviceSpec& spec : gpu_catalogue()) {
    SCOPED_TRACE(spec.name);
    // A name that contains no name of the catalogue.
    const bool geforce = spec.title.starts_with("GeForce");
    const DeviceSpec reckoned = describe_gpu({.title = geforce ? "GeForce ?" : "?",
                                              .compute_capability = spec.compute_capability,
                                              .num_units = spec.num_units,
                                              .memory_bytes = spec.memory_bytes,
                                              .clock = boost_ghz.at(spec.name) * 1e9,
                                              .bandwidth = spec.bandwidth});
    EXPECT_NEAR(reckoned.fp32_flops / spec.fp32_flops, 1, 0.08);
    EXPECT_NEAR(reckoned.half_flops / spec.half_flops, 1, 0.02);
    EXPECT_NEAR(reckoned.tf32_flops, spec.tf32_flops, 0.02 * spec.tf32_flops);
    EXPECT_NEAR(reckoned.fp8_flops, spec.fp8_flops, 0.02 * spec.fp8_flops);
    EXPECT_EQ(reckoned.bandwidth, spec.bandwidth);
    EXPECT_EQ(reckoned.library_bytes, spec.library_bytes);
    EXPECT_EQ(reckoned.driver_bytes, spec.driver_bytes);
  }
}

}  // namespace
}  // namespace gradmill
