// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/launch_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "paper_gpu/kernel_names.h"
#include "paper_gpu/occupancy.h"
#include "paper_gpu/paper_gpu.h"

namespace gradmill::paper {
namespace {

std::FILE* file() {
  static std::FILE* const opened = [] {
    const char* const path = std::getenv("PAPER_COUNTS");
    return path != nullptr ? std::fopen(path, "a") : nullptr;
  }();
  return opened;
}

std::string instructions(const ptx::Issued& issued) {
  std::string text;
  for (size_t n = 0; n < ptx::kNumUnits; ++n) {
    text += fmt::format("{}\"{}\": {}", n == 0 ? "" : ", ", ptx::name_of(static_cast<ptx::Unit>(n)), issued.by_unit[n]);
  }
  return text;
}

std::string occupancy(const std::string& instance, const ptx::Kernel& kernel, const ptx::Launch& launch) {
  const BlockNeeds needs{static_cast<uint32_t>(launch.block.count()), kernel.static_shared + launch.dynamic_shared,
                         recorded_registers(instance, gpu().compute_capability)};
  return fmt::format("\"threads\": {}, \"shared_bytes\": {}, \"registers\": {}, \"blocks_a_multiprocessor\": {}",
                     needs.threads, needs.shared_bytes, needs.registers ? std::to_string(*needs.registers) : "null",
                     blocks_that_fit(multiprocessor(gpu().compute_capability), needs));
}

// In microseconds.
std::string modelled(const model::KernelTime& time) {
  std::string text = fmt::format("\"us\": {:.3f}", time.seconds() * 1e6);
  const std::pair<const char*, double> parts[] = {
      {"issue", time.issue},     {"integer", time.integer}, {"floats", time.floats},
      {"special", time.special}, {"shared", time.shared},   {"l2", time.l2},
      {"memory", time.memory},   {"matrix", time.matrix},   {"chain", time.chain}};
  for (const auto& [name, seconds] : parts) text += fmt::format(", \"{}_us\": {:.3f}", name, seconds * 1e6);
  return text;
}

}  // namespace

bool reports_launches() { return file() != nullptr; }

void report_launch(const ptx::Kernel& kernel, const ptx::Launch& launch, const ptx::Counts& counts,
                   const model::KernelTime* time) {
  if (!reports_launches()) return;
  const std::string instance = instance_name(kernel.name);
  const ptx::Dim& grid = launch.grid;
  std::string line =
      fmt::format("{{\"gpu\": \"{}\", \"kernel\": \"{}\", \"grid\": [{}, {}, {}], \"cluster\": {}, {}, ", gpu().name,
                  instance, grid.x, grid.y, grid.z, launch.cluster, occupancy(instance, kernel, launch));
  line += fmt::format(
      "\"blocks_run\": {}, \"warp_instructions\": {}, \"lane_instructions\": {}, \"instructions\": {{{}}}, ",
      counts.blocks, counts.issued.warp_instructions, counts.issued.lane_instructions, instructions(counts.issued));
  line += fmt::format(
      "\"global_accesses\": {}, \"global_sectors\": {}, \"global_bytes_read\": {}, \"global_bytes_written\": {}, "
      "\"copied_bytes\": {}, \"shared_accesses\": {}, \"shared_bytes\": {}, \"shared_cycles\": {}, \"conflicts\": {}, ",
      counts.global_accesses, counts.global_sectors, counts.global_bytes_read, counts.global_bytes_written,
      counts.copied_bytes, counts.shared_accesses, counts.shared_bytes, counts.shared_cycles,
      counts.shared_cycles - counts.shared_least);
  line += fmt::format("\"atomics\": {}, \"special_functions\": {}, \"products\": {}, \"matrix_flops\": {}",
                      counts.atomics, counts.special_functions,
                      counts.issued.by_unit[static_cast<size_t>(ptx::Unit::matrix)], counts.matrix_flops);
  if (time != nullptr) line += ", " + modelled(*time);
  std::fputs((line + "}\n").c_str(), file());
}

}  // namespace gradmill::paper
