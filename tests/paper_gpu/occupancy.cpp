// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/occupancy.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

namespace gradmill::paper {
namespace {

constexpr uint32_t kRegisters = 65536;
// From the programming guide's table of technical specifications, by compute capability.
constexpr Multiprocessor kMultiprocessors[] = {
    {75, 1024, 16, 64, kRegisters, 0},   {80, 2048, 32, 164, kRegisters, 1}, {86, 1536, 16, 100, kRegisters, 1},
    {89, 1536, 24, 100, kRegisters, 1},  {90, 2048, 32, 228, kRegisters, 1}, {100, 2048, 32, 228, kRegisters, 1},
    {120, 1536, 24, 100, kRegisters, 1},
};
constexpr uint32_t kWarp = 32, kWarpRegisters = 256, kSharedUnit = 128, kKib = 1024;

uint32_t rounded_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

using Record = std::map<std::pair<std::string, int>, uint32_t>;

// Lines with compute capability, registers and kernel. Lines that begin with # are comments.
Record read_record() {
  Record record;
  std::ifstream file(PAPER_GPU_REGISTERS);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (second == std::string::npos) continue;
    const int capability = std::stoi(line.substr(0, first));
    record[{line.substr(second + 1), capability}] = static_cast<uint32_t>(std::stoul(line.substr(first + 1)));
  }
  return record;
}

}  // namespace

const Multiprocessor& multiprocessor(int compute_capability) {
  const Multiprocessor* found = &kMultiprocessors[0];
  for (const Multiprocessor& each : kMultiprocessors) {
    if (each.compute_capability <= compute_capability) found = &each;
  }
  return *found;
}

uint32_t blocks_that_fit(const Multiprocessor& on, const BlockNeeds& needs) {
  const uint32_t warps = (needs.threads + kWarp - 1) / kWarp;
  uint32_t blocks = std::min(on.blocks, on.threads / (warps * kWarp));
  const uint32_t shared = rounded_up(needs.shared_bytes, kSharedUnit) + on.shared_kib_of_system * kKib;
  if (shared != 0) blocks = std::min(blocks, on.shared_kib * kKib / shared);
  if (needs.registers.value_or(0) != 0) {
    // Each of the four parts of a multiprocessor has a quarter of the registers, and warps are distributed over the
    // parts.
    const uint32_t of_warp = rounded_up(*needs.registers * kWarp, kWarpRegisters);
    const uint32_t warps_that_fit = on.registers / 4 / of_warp * 4;
    blocks = std::min(blocks, warps_that_fit / warps);
  }
  return blocks;
}

std::optional<uint32_t> recorded_registers(const std::string& instance, int compute_capability) {
  static const Record record = read_record();
  const auto found = record.find({instance, compute_capability});
  return found != record.end() ? std::optional(found->second) : std::nullopt;
}

}  // namespace gradmill::paper
