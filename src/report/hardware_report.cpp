// SPDX-License-Identifier: Apache-2.0
#include "report/hardware_report.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "core/host_memory.h"
#include "metrics/format.h"
#include "core/build_info.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

std::string simd_of(const std::string& flags) {
  std::vector<std::string> found;
  for (const char* name : {"avx2", "avx512f", "avx512_bf16", "amx_bf16"}) {
    if ((" " + flags + " ").find(" " + std::string(name) + " ") != std::string::npos) found.emplace_back(name);
  }
  return found.empty() ? "no AVX2: this binary needs it" : fmt::format("{}", fmt::join(found, ", "));
}

// The folder itself need not exist yet.
fs::path nearest_present(fs::path path) {
  std::error_code ignored;
  path = fs::absolute(path, ignored);
  while (!fs::exists(path, ignored) && path.has_parent_path() && path != path.parent_path()) path = path.parent_path();
  return path;
}

std::string line(std::string_view what, std::string_view text) { return fmt::format("{:<14}{}\n", what, text); }

std::string mebibytes(size_t bytes) {
  return bytes == 0 ? "unknown" : fmt::format("{} MiB", bytes / (size_t{1} << 20));
}

std::string yes_no(bool yes) { return yes ? "yes" : "no"; }

std::string gpu_text(const cuda::GpuReport& gpu, size_t index) {
  const DeviceSpec& spec = gpu.spec;
  const int capability = spec.compute_capability;
  const PrecisionSupport support = precision_support(capability);
  std::string text =
      line(fmt::format("GPU {}", index), fmt::format("{}, compute capability {}.{}, {} multiprocessors", spec.title,
                                                     capability / 10, capability % 10, spec.num_units));
  text += line("  memory", fmt::format("{} total, {} free", mebibytes(spec.memory_bytes), mebibytes(gpu.free_bytes)));
  text += line("  precisions", fmt::format("bf16 {}, tf32 {}, fp16 {}, fp8 {}", yes_no(support.bf16),
                                           yes_no(support.tf32), yes_no(support.fp16), yes_no(support.fp8)));
  if (!gpu.unusable.empty()) text += line("  not used", gpu.unusable);
  if (!gpu.has_nvml) return text + line("  NVML", "does not answer: no power, temperature or load in metrics");
  std::string state;
  const auto add = [&](std::string_view format, const std::optional<double>& value) {
    if (value) state += (state.empty() ? "" : ", ") + fmt::format(fmt::runtime(format), *value);
  };
  if (gpu.sample) {
    add("{:.0f} W", gpu.sample->power_watts);
    add("limit {:.0f} W", gpu.sample->power_limit_watts);
    add("{:.0f} C", gpu.sample->temperature_celsius);
    add("{:.0f} MHz", gpu.sample->sm_clock_mhz);
  }
  return text + line("  NVML", state.empty() ? "present, reports nothing" : state);
}

std::string cuda_text(const cuda::Report& cuda) {
  std::string text;
  if (cuda.with_cuda) {
    text +=
        line("CUDA", fmt::format("runtime {} (in this binary, with code for {}), driver {}", cuda.runtime, cuda.targets,
                                 cuda.driver_cuda.empty()
                                     ? std::string("none")
                                     : fmt::format("{}for CUDA {}", cuda.driver.empty() ? "" : cuda.driver + ", ",
                                                   cuda.driver_cuda)));
    for (const cuda::LibraryReport& library : cuda.libraries) {
      text += line(library.name, library.version.empty() ? "cannot be used: " + library.reason : library.version);
    }
    text += line("NCCL", "not used: a run has one GPU");
  }
  if (cuda.gpus.empty()) text += line("GPU", "none: " + cuda.no_gpu);
  for (size_t i = 0; i < cuda.gpus.size(); ++i) text += gpu_text(cuda.gpus[i], i);
  return text;
}

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json or_null(size_t value) { return value == 0 ? Json() : Json(value); }
Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json json_of(const cuda::GpuReport& gpu) {
  const PrecisionSupport support = precision_support(gpu.spec.compute_capability);
  const cuda::GpuSample sample = gpu.sample.value_or(cuda::GpuSample{});
  return {
      {"name", gpu.spec.title},
      {"compute_capability", fmt::format("{}.{}", gpu.spec.compute_capability / 10, gpu.spec.compute_capability % 10)},
      {"multiprocessors", gpu.spec.num_units},
      {"usable", gpu.unusable.empty()},
      {"unusable_because", or_null(gpu.unusable)},
      {"memory_bytes", gpu.spec.memory_bytes},
      {"memory_free", or_null(gpu.free_bytes)},
      {"bf16", support.bf16},
      {"tf32", support.tf32},
      {"fp16", support.fp16},
      {"fp8", support.fp8},
      {"nvml", gpu.has_nvml},
      {"power_watts", or_null(sample.power_watts)},
      {"power_limit_watts", or_null(sample.power_limit_watts)},
      {"temperature_celsius", or_null(sample.temperature_celsius)},
      {"utilisation", or_null(sample.utilisation)}};
}

Json json_of(const cuda::Report& cuda) {
  Json object = {{"with_cuda", cuda.with_cuda},
                 {"driver", or_null(cuda.driver)},
                 {"driver_cuda", or_null(cuda.driver_cuda)},
                 {"runtime", or_null(cuda.runtime)},
                 {"code_for", or_null(cuda.targets)},
                 {"nccl", Json()},
                 {"libraries", Json::object()},
                 {"no_gpu", or_null(cuda.no_gpu)},
                 {"gpus", Json::array()}};
  for (const cuda::LibraryReport& library : cuda.libraries) {
    object["libraries"][library.name] = {{"version", or_null(library.version)}, {"reason", or_null(library.reason)}};
  }
  for (const cuda::GpuReport& gpu : cuda.gpus) object["gpus"].push_back(json_of(gpu));
  return object;
}

}  // namespace

PrecisionSupport precision_support(int compute_capability) {
  return {.fp16 = compute_capability >= 70,
          .bf16 = compute_capability >= 80,
          .tf32 = compute_capability >= 80,
          .fp8 = compute_capability >= 89};
}

HardwareReport hardware_report(const fs::path& runs_folder) {
  const BuildInfo& build = build_info();
  const DeviceSpec cpu = host_cpu();
  HardwareReport report;
  report.build =
      fmt::format("gradmill {} ({}, {}, {})", build.version, build.git_hash, build.compiler, build.build_type);
  report.cpu = kernel_value("/proc/cpuinfo", "model name");
  report.simd = simd_of(kernel_value("/proc/cpuinfo", "flags"));
  report.cores = cpu.num_units;
  report.memory_bytes = cpu.memory_bytes;
  report.memory_available = available_host_memory().value_or(0);
  report.runs_folder = runs_folder;
  std::error_code failed;
  if (const fs::space_info disk = fs::space(nearest_present(runs_folder), failed); !failed) {
    report.disk_bytes = disk.capacity;
    report.disk_available = disk.available;
  }
  report.cuda = cuda::report();
  return report;
}

std::string hardware_text(const HardwareReport& report) {
  const auto known = [](size_t bytes) { return bytes == 0 ? std::string("unknown") : format_bytes(double(bytes)); };
  return line("build", report.build) +
         line("CPU",
              fmt::format("{}, {} cores, {}", report.cpu.empty() ? "unknown" : report.cpu, report.cores, report.simd)) +
         line("memory", fmt::format("{} total, {} available with swap", known(report.memory_bytes),
                                    known(report.memory_available))) +
         line("disk", fmt::format("{} free of {} for '{}'", known(report.disk_available), known(report.disk_bytes),
                                  report.runs_folder.string())) +
         cuda_text(report.cuda);
}

std::string hardware_json(const HardwareReport& report) {
  const Json object = {{"build", report.build},
                       {"cpu",
                        {{"name", or_null(report.cpu)},
                         {"cores", report.cores},
                         {"simd", report.simd},
                         {"memory_bytes", or_null(report.memory_bytes)},
                         {"memory_available", or_null(report.memory_available)}}},
                       {"disk",
                        {{"runs_folder", report.runs_folder.string()},
                         {"bytes", or_null(report.disk_bytes)},
                         {"available", or_null(report.disk_available)}}},
                       {"cuda", json_of(report.cuda)}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gradmill
