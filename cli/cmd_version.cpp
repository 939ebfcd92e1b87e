// SPDX-License-Identifier: Apache-2.0
// gradmill version
#include <fmt/core.h>

#include "commands.h"
#include "cuda/devices.h"
#include "core/build_info.h"

namespace gradmill::cli {
namespace {

void print_device(const DeviceSpec& spec) {
  fmt::print("device  {}: {} {}, {:.1f} GiB\n", spec.title, spec.num_units,
             spec.kind == DeviceKind::cpu ? "cores" : "multiprocessors", double(spec.memory_bytes) / double(1 << 30));
}

}  // namespace

Run add_version(CLI::App&) {
  return [] {
    const BuildInfo& build = build_info();
    fmt::print("gradmill {} ({}, {}, {})\n", build.version, build.git_hash, build.compiler, build.build_type);
    print_device(host_cpu());
    for (const DeviceSpec& gpu : cuda::present_devices()) print_device(gpu);
    return 0;
  };
}

}  // namespace gradmill::cli
