// SPDX-License-Identifier: Apache-2.0
#include "core/gpu_catalogue.h"
#include "report/hardware_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gradmill {
namespace {

using nlohmann::json;

HardwareReport example() {
  HardwareReport report;
  report.build = "gradmill 1";
  report.cpu = "a CPU";
  report.cores = 8;
  report.runs_folder = "runs";
  report.cuda.with_cuda = true;
  report.cuda.runtime = report.cuda.driver_cuda = "13.0";
  report.cuda.driver = "580.1";
  report.cuda.libraries = {{"cuBLASLt", "13.1.0", ""}, {"cuDNN", "", "no libcudnn.so.9 on this machine"}};
  cuda::GpuReport gpu{.spec = device_by_name("h200"), .free_bytes = size_t{100} << 30, .has_nvml = true};
  gpu.sample.emplace();
  gpu.sample->power_limit_watts = 700;
  report.cuda.gpus = {gpu};
  return report;
}

TEST(HardwareReport, TextSaysWhatIsThereAndWhyNot) {
  const std::string text = hardware_text(example());
  for (const char* part : {"a CPU, 8 cores", "H200 SXM", "compute capability 9.0", "102400 MiB free", "13.1.0",
                           "cannot be used: no libcudnn", "bf16 yes, tf32 yes, fp16 yes, fp8 yes", "limit 700 W",
                           "580.1, for CUDA 13.0", "NCCL"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(HardwareReport, SaysWhichGpuIsNotUsed) {
  HardwareReport report = example();
  report.cuda.gpus[0].unusable = "compute capability 7.0, and more";
  EXPECT_NE(hardware_text(report).find("not used    compute capability 7.0, and more"), std::string::npos);
  const json object = json::parse(hardware_json(report));
  EXPECT_EQ(object.at("cuda").at("gpus").at(0).at("usable"), false);
  EXPECT_EQ(object.at("cuda").at("gpus").at(0).at("unusable_because"), "compute capability 7.0, and more");
}

TEST(HardwareReport, JsonHasTheSameAndNullForUnknown) {
  const json object = json::parse(hardware_json(example()));
  const json& gpu = object.at("cuda").at("gpus").at(0);
  EXPECT_EQ(gpu.at("compute_capability"), "9.0");
  EXPECT_EQ(gpu.at("power_limit_watts"), 700);
  EXPECT_TRUE(gpu.at("temperature_celsius").is_null());
  EXPECT_EQ(object.at("cuda").at("libraries").at("cuBLASLt").at("version"), "13.1.0");
  EXPECT_TRUE(object.at("cuda").at("libraries").at("cuDNN").at("version").is_null());
  EXPECT_TRUE(object.at("cpu").at("memory_bytes").is_null());
}

TEST(HardwareReport, PrecisionsByComputeCapability) {
  EXPECT_FALSE(precision_support(75).bf16);
  EXPECT_TRUE(precision_support(75).fp16);
  EXPECT_TRUE(precision_support(80).tf32);
  EXPECT_FALSE(precision_support(86).fp8);
  EXPECT_TRUE(precision_support(89).fp8);
}

TEST(HardwareReport, KnowsThisMachine) {
  const HardwareReport report = hardware_report("a/folder/that/is/not/here");
  EXPECT_GT(report.cores, 0);
  EXPECT_GT(report.memory_bytes, 0u);
  EXPECT_GT(report.disk_bytes, 0u);
  EXPECT_EQ(report.cuda.gpus.empty(), !report.cuda.no_gpu.empty());
}

}  // namespace
}  // namespace gradmill
