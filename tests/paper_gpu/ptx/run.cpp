// SPDX-License-Identifier: Apache-2.0
// Runs blocks and clusters one after the other, and schedules their warps.
#include "paper_gpu/ptx/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/global_shadow.h"
#include "paper_gpu/ptx/machine.h"
#include "paper_gpu/ptx/special.h"
#include "paper_gpu/ptx/warp_run.h"

namespace gradmill::paper::ptx {
namespace {

constexpr size_t kRegisterAlignment = 64, kSharedAlignment = 1024, kParamAlignment = 128;

uint8_t* aligned(std::vector<uint8_t>& memory, size_t bytes, size_t alignment) {
  memory.resize(bytes + alignment);
  return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory.data()) + alignment - 1) / alignment *
                                    alignment);
}

// Memory for a block of this launch. All blocks of the grid with this rank use it in turn.
void prepare(Block& block, Grid& grid) {
  const Kernel& kernel = grid.kernel;
  const auto threads = static_cast<uint32_t>(grid.launch.block.count());
  const uint32_t num_warps = (threads + kLanes - 1) / kLanes;
  const uint32_t dynamic = grid.launch.dynamic_shared;
  block.shared_bytes = dynamic == 0 ? kernel.static_shared : kernel.dynamic_begin + dynamic;
  block.shared = aligned(block.shared_memory, block.shared_bytes, kSharedAlignment);
  block.local.resize(size_t{kernel.local_bytes} * num_warps * kLanes + kLanes);
  uint8_t* const registers = aligned(block.registers, size_t{kernel.register_bytes} * num_warps, kRegisterAlignment);
  block.predicates.resize(size_t{kernel.num_predicates} * num_warps + 1);
  block.warps.resize(num_warps);
  for (uint32_t n = 0; n < num_warps; ++n) {
    Warp& warp = block.warps[n];
    warp.block = &block;
    warp.index = n;
    warp.actor = block.rank * num_warps + n;
    warp.bases[0] = registers + size_t{n} * kernel.register_bytes;
    warp.bases[1] = grid.constant_begin;
    warp.predicates = block.predicates.data() + size_t{n} * kernel.num_predicates;
  }
}

void start_warp(Warp& warp, uint32_t threads, uint32_t num_actors) {
  const Kernel& kernel = grid_of(warp).kernel;
  const uint32_t left = threads - warp.index * kLanes;
  warp.live = left >= kLanes ? kAllLanes : (1u << left) - 1;
  warp.groups.assign(1, {0, warp.live, false});
  warp.waits = warp.polls = warp.in_cluster_barrier = false;
  warp.asked = Warp::kNothing;
  for (const auto& [special, slot] : kernel.specials) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint64_t value = special_value(special, *warp.block, warp, lane);
      if (is_wide(special)) {
        warp.at<uint64_t>(slot)[lane] = value;
      } else {
        warp.at<uint32_t>(slot)[lane] = static_cast<uint32_t>(value);
      }
    }
  }
  if (kernel.explicit_cluster != kNoSlot) {
    warp.predicates[kernel.explicit_cluster] = grid_of(warp).launch.cluster > 1 ? kAllLanes : 0;
  }
  constexpr uint8_t kPoison = 0xfb;  // a NaN in every type
  for (const Slot slot : kernel.poisoned)
    std::memset(warp.at<uint8_t>(slot & ~1u), kPoison, kLanes * (slot & 1 ? 8 : 4));
  warp.open_products.clear();
  warp.product_groups.clear();
  warp.products_in_flight = 0;
  warp.products_fenced = false;
  if (kernel.uses_products) warp.in_flight.assign(kernel.register_bytes / (kLanes * 4) + 1, 0);
  warp.has_fenced = warp.has_seen = false;
  warp.acquired_at = 0;
  const uint32_t floor = warp.block->shadow.floor();
  warp.known.clear();
  warp.known.clock.assign(num_actors, floor - 1);
  warp.lanes_met = floor - 1;
  warp.lanes_ahead = 0;
  std::fill(std::begin(warp.proxy_fences), std::end(warp.proxy_fences), floor);
}

void start(Block& block, uint64_t number, uint32_t num_actors) {
  const Grid& grid = *block.cluster->grid;
  const Dim& size = grid.launch.grid;
  block.number = number;
  block.id[0] = static_cast<uint32_t>(number % size.x);
  block.id[1] = static_cast<uint32_t>(number / size.x % size.y);
  block.id[2] = static_cast<uint32_t>(number / size.x / size.y);
  for (NamedBarrier& barrier : block.barriers) barrier = NamedBarrier{};
  for (const auto& [address, barrier] : block.memory_barriers)
    block.shadow.forget(address, 8);  // those of the previous block
  block.memory_barriers.clear();
  block.pending_reads = block.pending_writes = 0;
  block.local_written.assign(block.local.size(), 0);
  block.live_warps = static_cast<uint32_t>(block.warps.size());
  for (Warp& warp : block.warps) start_warp(warp, static_cast<uint32_t>(grid.launch.block.count()), num_actors);
}

class ClusterRun {
  // A warp may have made progress before it polled the barrier again. After kDeadRounds rounds none has.
  static constexpr uint32_t kIdleRounds = 2, kDeadRounds = 100;

 public:
  explicit ClusterRun(Grid& grid) : grid_(grid) {
    cluster_.grid = &grid;
    for (uint32_t rank = 0; rank < grid.launch.cluster; ++rank) {
      cluster_.blocks.push_back(std::make_unique<Block>());
      Block& block = *cluster_.blocks.back();
      block.cluster = &cluster_;
      block.rank = rank;
      prepare(block, grid);
    }
  }

  // Runs the cluster whose first block has this number.
  void run(uint64_t first) {
    begin(first);
    size_t left = order_.size();
    // Consecutive rounds in which all remaining warps only waited or polled without success.
    uint32_t idle = 0;
    while (left != 0) {
      if (grid_.options.order == Order::shuffled) std::shuffle(order_.begin(), order_.end(), grid_.random);
      bool moved = false;
      for (Warp* const warp : order_) {
        if (warp->groups.empty() || warp->waits) continue;
        warp->polls = false;
        run_warp(*warp);
        moved |= !warp->polls;
        if (warp->groups.empty()) {
          warp_ended(*warp);
          --left;
        }
      }
      idle = moved ? 0 : idle + 1;
      const bool early = grid_.options.arrival == Arrival::shuffled && grid_.random() % 4 == 0;
      if ((early || idle >= kIdleRounds) && finish_copy()) idle = 0;
      if (idle > kDeadRounds) deadlock();
    }
    while (finish_copy()) {
    }
    ++num_run_;
  }

  // The work done so far, as an equivalent number of lane instructions.
  uint64_t work() const {
    constexpr uint64_t kFlopsALaneInstruction = 16;
    Counts counts;
    count(counts);
    const uint64_t flops = grid_.counts != nullptr ? grid_.counts->matrix_flops : 0;
    return counts.issued.lane_instructions + flops / kFlopsALaneInstruction;
  }

  void count(Counts& counts) const {
    counts.blocks += num_run_ * cluster_.blocks.size();
    for (const auto& block : cluster_.blocks) {
      for (const Warp& warp : block->warps) {
        counts.issued += warp.issued;
      }
    }
  }

 private:
  void begin(uint64_t first) {
    cluster_.engine.clear();
    cluster_.arrived = cluster_.phase = 0;
    cluster_.known.clear();
    cluster_.released.clear();
    cluster_.num_engines = 0;
    order_.clear();
    const auto num_warps = static_cast<uint32_t>(cluster_.blocks[0]->warps.size());
    const uint32_t num_actors = num_warps * grid_.launch.cluster;
    // All blocks of a cluster start at the same time.
    for (auto& block : cluster_.blocks) {
      block->shadow.start(block->shared_bytes, grid_.kernel.shared_granule, num_actors);
    }
    uint32_t floor = 0;
    for (auto& block : cluster_.blocks) floor = std::max(floor, block->shadow.floor());
    for (auto& block : cluster_.blocks) block->shadow.raise_floor(floor);
    for (size_t rank = 0; rank < cluster_.blocks.size(); ++rank) {
      start(*cluster_.blocks[rank], first + rank, num_actors);
      for (Warp& warp : cluster_.blocks[rank]->warps) order_.push_back(&warp);
    }
    if (grid_.options.order == Order::descending) std::reverse(order_.begin(), order_.end());
  }

  bool finish_copy() {
    if (cluster_.engine.empty()) return false;
    size_t which = 0;
    if (grid_.options.arrival == Arrival::shuffled) which = grid_.random() % cluster_.engine.size();
    EngineCopy copy = std::move(cluster_.engine[which]);
    cluster_.engine.erase(cluster_.engine.begin() + static_cast<std::ptrdiff_t>(which));
    copy.work();
    return true;
  }

  [[noreturn]] void deadlock() {
    for (Warp* const warp : order_) {
      if (warp->groups.empty()) continue;
      const uint32_t pc = warp->groups[0].pc;
      warp->current = &grid_.kernel.code[warp->waits && pc > 0 ? pc - 1 : pc];
      fail(*warp, warp->groups[0].mask, "deadlock: everything that is left waits, among it this warp");
    }
    throw Finding{"deadlock"};
  }

  Grid& grid_;
  Cluster cluster_;
  std::vector<Warp*> order_;
  uint64_t num_run_ = 0;
};

void run_all(Grid& grid, ClusterRun& cluster) {
  std::vector<uint64_t> order(grid.launch.grid.count() / grid.launch.cluster);
  std::iota(order.begin(), order.end(), uint64_t{0});
  if (grid.options.order == Order::descending) std::reverse(order.begin(), order.end());
  if (grid.options.order == Order::shuffled) std::shuffle(order.begin(), order.end(), grid.random);
  for (const uint64_t n : order) cluster.run(n * grid.launch.cluster);
}

// Numbers of clusters: the first, the last, and then a low-discrepancy sequence in two dimensions, so that at any point
// the blocks are spread evenly along the grid's x and along the rest. Small grids end with the remaining clusters.
std::vector<uint64_t> spread_over(const Launch& launch) {
  constexpr double kStepX = 0.7548776662466927, kStepRest = 0.5698402909980532;
  constexpr uint64_t kMost = 4096;
  const uint64_t width = launch.grid.x / launch.cluster, rest = uint64_t{launch.grid.y} * launch.grid.z;
  std::vector<uint64_t> order;
  std::unordered_set<uint64_t> there;
  const auto add = [&](uint64_t n) {
    if (there.insert(n).second) order.push_back(n);
  };
  const auto part = [](double share, uint64_t of) {
    return static_cast<uint64_t>((share - std::floor(share)) * double(of));
  };
  add(0);
  add(width * rest - 1);
  for (uint64_t n = 1; n <= kMost; ++n) {
    add(part(double(n) * kStepRest, rest) * width + part(double(n) * kStepX, width));
  }
  for (uint64_t n = 0; n < width * rest && width * rest <= kMost; ++n) add(n);
  return order;
}

void run_some(Grid& grid, ClusterRun& cluster) {
  const Sample& sample = grid.options.sample;
  uint64_t done = 0;
  for (const uint64_t n : spread_over(grid.launch)) {
    if (done >= sample.least_clusters && cluster.work() >= sample.enough_lane_instructions) return;
    cluster.run(n * grid.launch.cluster);
    ++done;
  }
}

std::string why_not(const Kernel& kernel, const Launch& launch) {
  if (kernel.max_threads != 0 && launch.block.count() > kernel.max_threads) {
    return fmt::format("{} is launched with {} threads, its launch bounds allow {}", readable_name(kernel.name),
                       launch.block.count(), kernel.max_threads);
  }
  return {};
}

}  // namespace

std::string run(const Kernel& kernel, const Launch& launch, std::span<const std::byte> params,
                const RunOptions& options, Counts* counts) {
  if (const std::string reason = why_not(kernel, launch); !reason.empty()) return reason;
  Grid grid{.kernel = kernel, .launch = launch, .options = options, .counts = options.counts ? counts : nullptr};
  uint8_t* const param_begin = aligned(grid.params, kernel.param_bytes, kParamAlignment);
  std::memcpy(param_begin, params.data(), std::min<size_t>(params.size(), kernel.param_bytes));
  grid.param_begin = param_begin;
  const size_t constant_bytes = kernel.constants.size() * sizeof(kernel.constants[0]);
  grid.constant_begin = aligned(grid.constants, constant_bytes, kRegisterAlignment);
  if (constant_bytes != 0) std::memcpy(grid.constant_begin, kernel.constants.data(), constant_bytes);
  grid.random.seed(options.seed);
  grid.launch_number = next_launch();
  ClusterRun cluster(grid);
  std::string finding;
  try {
    options.sample.least_clusters != 0 ? run_some(grid, cluster) : run_all(grid, cluster);
  } catch (const Finding& found) {
    finding = found.text;
  }
  if (counts != nullptr) cluster.count(*counts);
  return finding;
}

}  // namespace gradmill::paper::ptx
