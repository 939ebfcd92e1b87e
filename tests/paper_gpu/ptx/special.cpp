// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/special.h"

#include <unordered_map>

#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/ptx/machine.h"

namespace gradmill::paper::ptx {
namespace {

const std::unordered_map<std::string_view, Special>& specials() {
  static const std::unordered_map<std::string_view, Special> all = {
      {"%tid.x", Special::tid_x},
      {"%tid.y", Special::tid_y},
      {"%tid.z", Special::tid_z},
      {"%ntid.x", Special::ntid_x},
      {"%ntid.y", Special::ntid_y},
      {"%ntid.z", Special::ntid_z},
      {"%ctaid.x", Special::ctaid_x},
      {"%ctaid.y", Special::ctaid_y},
      {"%ctaid.z", Special::ctaid_z},
      {"%nctaid.x", Special::nctaid_x},
      {"%nctaid.y", Special::nctaid_y},
      {"%nctaid.z", Special::nctaid_z},
      {"%laneid", Special::laneid},
      {"%warpid", Special::warpid},
      {"%lanemask_eq", Special::lanemask_eq},
      {"%lanemask_lt", Special::lanemask_lt},
      {"%lanemask_le", Special::lanemask_le},
      {"%lanemask_gt", Special::lanemask_gt},
      {"%lanemask_ge", Special::lanemask_ge},
      {"%cluster_ctarank", Special::cluster_rank},
      {"%cluster_ctaid.x", Special::cluster_rank},
      {"%cluster_nctarank", Special::cluster_size},
      {"%cluster_nctaid.x", Special::cluster_size},
      {"%clusterid.x", Special::clusterid_x},
      {"%nclusterid.x", Special::nclusterid_x},
      {"%cluster_ctaid.y", Special::zero},
      {"%cluster_ctaid.z", Special::zero},
      {"%cluster_nctaid.y", Special::one},
      {"%cluster_nctaid.z", Special::one},
      {"%clusterid.y", Special::ctaid_y},
      {"%clusterid.z", Special::ctaid_z},
      {"%nclusterid.y", Special::nctaid_y},
      {"%nclusterid.z", Special::nctaid_z},
      {"%clock", Special::clock},
      {"%clock64", Special::clock64},
      {"%globaltimer", Special::globaltimer},
      {"%smid", Special::smid},
      {"%nsmid", Special::nsmid},
      {"%nwarpid", Special::nwarpid},
      {"%total_smem_size", Special::total_smem_size},
      {"%dynamic_smem_size", Special::dynamic_smem_size},
  };
  return all;
}

uint32_t lane_mask(Special special, uint32_t bit) {
  switch (special) {
    case Special::lanemask_eq:
      return bit;
    case Special::lanemask_lt:
      return bit - 1;
    case Special::lanemask_le:
      return bit | (bit - 1);
    case Special::lanemask_gt:
      return ~(bit | (bit - 1));
    default:
      return ~(bit - 1);
  }
}

uint64_t cluster_value(Special special, const Block& block, const Launch& launch) {
  switch (special) {
    case Special::cluster_rank:
      return block.rank;
    case Special::cluster_size:
      return launch.cluster;
    case Special::clusterid_x:
      return block.id[0] / launch.cluster;
    default:
      return launch.grid.x / launch.cluster;
  }
}

// %tid, %ctaid and similar: positions and counts of threads and blocks.
uint64_t place_value(Special special, const Block& block, uint32_t thread) {
  const Launch& launch = block.cluster->grid->launch;
  const Dim& size = launch.block;
  switch (special) {
    case Special::tid_x:
      return thread % size.x;
    case Special::tid_y:
      return thread / size.x % size.y;
    case Special::tid_z:
      return thread / size.x / size.y;
    case Special::ntid_x:
      return size.x;
    case Special::ntid_y:
      return size.y;
    case Special::ntid_z:
      return size.z;
    case Special::ctaid_x:
      return block.id[0];
    case Special::ctaid_y:
      return block.id[1];
    case Special::ctaid_z:
      return block.id[2];
    case Special::nctaid_x:
      return launch.grid.x;
    case Special::nctaid_y:
      return launch.grid.y;
    default:
      return launch.grid.z;
  }
}

}  // namespace

const Special* special_named(std::string_view name) {
  const auto found = specials().find(name);
  return found == specials().end() ? nullptr : &found->second;
}

bool is_wide(Special special) { return special == Special::clock64 || special == Special::globaltimer; }

uint64_t special_value(Special special, const Block& block, const Warp& warp, uint32_t lane) {
  const Launch& launch = block.cluster->grid->launch;
  switch (special) {
    case Special::laneid:
      return lane;
    case Special::warpid:
      return warp.index;
    case Special::lanemask_eq:
    case Special::lanemask_lt:
    case Special::lanemask_le:
    case Special::lanemask_gt:
    case Special::lanemask_ge:
      return lane_mask(special, 1u << lane);
    case Special::cluster_rank:
    case Special::cluster_size:
    case Special::clusterid_x:
    case Special::nclusterid_x:
      return cluster_value(special, block, launch);
    case Special::zero:
    case Special::clock:
    case Special::clock64:
    case Special::globaltimer:
      return 0;
    case Special::one:
      return 1;
    case Special::smid:
      return block.number % static_cast<uint64_t>(gpu().num_units);
    case Special::nsmid:
      return static_cast<uint64_t>(gpu().num_units);
    case Special::nwarpid:
      return 64;
    case Special::dynamic_smem_size:
      return launch.dynamic_shared;
    case Special::total_smem_size:
      return block.shared_bytes;
    default:
      return place_value(special, block, warp.index * kLanes + lane);
  }
}

}  // namespace gradmill::paper::ptx
