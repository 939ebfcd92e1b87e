// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/model/launch_time.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <tuple>

#include "paper_gpu/kernel_names.h"
#include "paper_gpu/launch_report.h"
#include "paper_gpu/model/kernel_time.h"
#include "paper_gpu/model/parameters.h"
#include "paper_gpu/occupancy.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/shadow.h"

namespace gradmill::paper::model {
namespace {

// Large enough to see the average block, and small enough for large launches.
constexpr ptx::Sample kSample{.least_clusters = 5, .enough_lane_instructions = 20'000'000};

// Everything that determines the time of a launch, except the data. Addresses count only as null or not null.
using Key = std::tuple<const ptx::Kernel*, uint64_t, uint64_t, uint32_t, std::vector<std::byte>>;

void blank_addresses(std::vector<std::byte>& params) {
  for (size_t at = 0; at + sizeof(uint64_t) <= params.size(); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, params.data() + at, sizeof(word));
    if (!in_space(word, 1)) continue;
    std::memcpy(params.data() + at, &kSpaceBegin, sizeof(word));
  }
}

LaunchShape shape_of(const ptx::Kernel& kernel, const ptx::Launch& launch) {
  return {launch.grid.count(), static_cast<uint32_t>(launch.block.count()),
          kernel.static_shared + launch.dynamic_shared,
          recorded_registers(instance_name(kernel.name), gpu().compute_capability), kernel.uses_products};
}

ptx::Counts sample(const ptx::Kernel& kernel, const ptx::Launch& launch, const std::vector<std::byte>& params) {
  ptx::Counts counts;
  counts.extents = extents_of(params);
  const ptx::RunOptions options{.counts = true, .checks = false, .sample = kSample};
  const std::string finding = ptx::run(kernel, launch, params, options, &counts);
  if (!finding.empty()) fault(finding);
  return counts;
}

}  // namespace

bool models_time() {
  static const bool answer = [] {
    const char* const text = std::getenv("PAPER_TIME");
    if (text == nullptr) return false;
    if (std::string_view(text) == "model") {
      std::fprintf(stderr, "paper GPU (%s): %s\n", gpu().name.data(), kFit);
      return true;
    }
    std::fprintf(stderr, "PAPER_TIME=%s: must be model, or not be set\n", text);
    std::_Exit(2);
  }();
  return answer;
}

std::vector<ptx::Extent> extents_of(const std::vector<std::byte>& params) {
  std::vector<ptx::Extent> extents{{.base = 0}};
  for (size_t at = 0; at + sizeof(uint64_t) <= params.size(); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, params.data() + at, sizeof(word));
    if (in_space(word, 1)) extents.push_back({.base = word});
  }
  const auto by_base = [](const ptx::Extent& a, const ptx::Extent& b) { return a.base < b.base; };
  std::sort(extents.begin(), extents.end(), by_base);
  return extents;
}

double seconds_of(const ptx::Kernel& kernel, const ptx::Launch& launch, const ptx::Counts& counts) {
  const KernelTime time = kernel_time(shape_of(kernel, launch), counts);
  report_launch(kernel, launch, counts, &time);
  return time.seconds();
}

double sampled_seconds(const ptx::Kernel& kernel, const ptx::Launch& launch, const std::vector<std::byte>& params) {
  static std::map<Key, double> known;
  Key key{&kernel, launch.grid.count(), launch.block.count(), launch.dynamic_shared, params};
  blank_addresses(std::get<std::vector<std::byte>>(key));
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = seconds_of(kernel, launch, sample(kernel, launch, params));
}

}  // namespace gradmill::paper::model
