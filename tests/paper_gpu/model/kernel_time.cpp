// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/model/kernel_time.h"

#include <algorithm>
#include <cmath>

#include "paper_gpu/model/parameters.h"
#include "paper_gpu/model/rates.h"
#include "paper_gpu/occupancy.h"
#include "paper_gpu/paper_gpu.h"

namespace gradmill::paper::model {
namespace {

constexpr double kLanes = 32, kSectorBytes = 32;

// The bytes moved to and from device memory, each counted once, however often blocks access them.
double moved_bytes(const ptx::Counts& counts, double scale) {
  double bytes = 0;
  for (const ptx::Extent& extent : counts.extents) {
    if (extent.bytes_read != 0) {
      bytes += std::min(scale * double(extent.bytes_read), double(extent.read_high - extent.read_low));
    }
    if (extent.bytes_written != 0) {
      bytes += std::min(scale * double(extent.bytes_written), double(extent.written_high - extent.written_low));
    }
  }
  return bytes;
}

// The number of blocks that the busiest multiprocessor runs: full rounds, then its part of the remaining blocks.
struct Rounds {
  double blocks, rounds;
};
Rounds rounds_of(const LaunchShape& shape) {
  const BlockNeeds needs{shape.threads, shape.shared_bytes, shape.registers};
  const double fit = std::max(1u, blocks_that_fit(multiprocessor(gpu().compute_capability), needs));
  const double units = rates().num_units, whole = std::floor(double(shape.blocks) / (units * fit));
  const double rest = double(shape.blocks) - whole * units * fit;
  return {whole * fit + std::ceil(rest / units), std::ceil(double(shape.blocks) / (units * fit))};
}

}  // namespace

double overlapped(std::initializer_list<double> parts) {
  double sum = 0;
  for (const double part : parts) sum += std::pow(part, kOverlap);
  return std::pow(sum, 1 / kOverlap);
}

double KernelTime::seconds() const {
  const double arithmetic = std::max({issue, integer, floats, special});
  // Blocks wait for the matrix units before they continue with their arithmetic, and vice versa.
  return kLaunchSeconds + overlapped({matrix + arithmetic, shared, l2, memory, chain});
}

KernelTime kernel_time(const LaunchShape& shape, const ptx::Counts& counts) {
  using ptx::Unit;
  const Rates& best = rates();
  const double blocks_run = double(std::max<uint64_t>(1, counts.blocks));
  const double scale = double(shape.blocks) / blocks_run;
  const auto [blocks, rounds] = rounds_of(shape);
  const auto issued = [&](Unit unit) { return kIssuedShare * double(counts.issued.by_unit[size_t(unit)]); };
  // The seconds of the busiest multiprocessor, from the cycles of the blocks that ran.
  const auto busy = [&](double cycles) { return cycles / blocks_run * blocks / best.clock; };
  const double all = kIssuedShare * double(counts.issued.warp_instructions) - issued(Unit::move);
  const double global_bytes = kSectorBytes * double(counts.global_sectors) + double(counts.copied_bytes);
  const double warps = std::ceil(shape.threads / kLanes);
  KernelTime time;
  time.issue = busy(all / best.issue);
  time.integer = busy(issued(Unit::integer) * kLanes / best.integer);
  time.floats = busy(issued(Unit::fp32) * kLanes / best.fp32 + issued(Unit::half) * kLanes / best.half +
                     issued(Unit::fp64) * kLanes / best.fp64);
  time.special = busy(issued(Unit::special) * kLanes / best.special + issued(Unit::convert) * kLanes / best.convert);
  time.shared = busy(double(counts.shared_cycles) / best.shared + issued(Unit::exchange) * kLanes / best.exchange +
                     kSectorBytes * double(counts.global_sectors) / best.l1_bytes);
  time.l2 = scale * global_bytes / (best.l2_bytes * best.num_units * best.clock);
  time.memory = moved_bytes(counts, scale) / (kBandwidthShare * best.bandwidth);
  const bool slow = best.has_warpgroups && !shape.uses_warpgroups;
  time.matrix = busy(double(counts.matrix_flops) / (kMatrixShare * (slow ? kWarpMatrixShare : 1) * best.half_flops));
  const double steps = all * kInstructionCycles + double(counts.global_accesses) * kMemoryCycles;
  time.chain = steps / blocks_run / warps * rounds / best.clock;
  return time;
}

}  // namespace gradmill::paper::model
