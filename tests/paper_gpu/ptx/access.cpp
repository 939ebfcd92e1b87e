// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/access.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "paper_gpu/ptx/exceptions.h"
#include "paper_gpu/ptx/global_shadow.h"
#include "paper_gpu/ptx/module.h"
#include "paper_gpu/shadow.h"

namespace gradmill::paper::ptx {
namespace {

GlobalAccess global_access(Warp& warp, int lane, bool atomic) {
  const Block& block = *warp.block;
  const Grid& grid = *block.cluster->grid;
  return {.launch = grid.launch_number,
          .block = block.number,
          .first_block = block.number - block.rank,
          .warp = warp.index,
          .actor = warp.actor,
          .cluster_blocks = grid.launch.cluster,
          .warps_per_block = static_cast<uint32_t>(block.warps.size()),
          .known = warp.known_to(static_cast<uint32_t>(lane)),
          .atomic = atomic};
}

bool all_have(const uint8_t* state, uint32_t bytes, uint8_t wanted) {
  if (bytes == 4) {
    uint32_t four;
    std::memcpy(&four, state, 4);
    const uint32_t all = wanted * 0x01010101u;
    return (four & all) == all;
  }
  uint8_t lacking = 0;
  for (uint32_t i = 0; i < bytes; ++i) lacking |= static_cast<uint8_t>(~state[i] & wanted);
  return lacking == 0;
}

void fail_unless_excepted(Warp& warp, int lane, const std::string& what) {
  if (!is_excepted(grid_of(warp).kernel.name, what)) fail(warp, 1u << lane, what);
}

// Checks range, extents and initialisation, then races.
uint8_t* checked(Warp& warp, uint64_t address, uint32_t bytes, int lane, bool read, bool write, bool atomic) {
  const uint32_t mask = 1u << lane;
  if (!in_space(address, bytes)) {
    if (!write && grid_of(warp).kernel.module->holds(address, bytes)) return reinterpret_cast<uint8_t*>(address);
    fail(warp, mask, fmt::format("{} bytes at {:#x} are not memory of the GPU", bytes, address));
  }
  const bool checking = checks(warp);
  if (checking && warp.block->pending_writes != 0) expect_not_being_stored(warp, address, bytes, lane);
  uint8_t* const state = state_of(address);
  if (!all_have(state, bytes, read && checking ? kAllocated | kWritten : kAllocated)) {
    const std::string reason = read && checking ? why_not_read(address, bytes) : why_not_written(address, bytes);
    if (!reason.empty()) fail_unless_excepted(warp, lane, reason);
  }
  if (checking) {
    const GlobalAccess access = global_access(warp, lane, atomic);
    const bool clean = write ? note_global_write(access, address, bytes) : note_global_read(access, address, bytes);
    if (!clean) fail(warp, mask, describe_global(access, address, bytes, write));
  }
  if (write) std::memset(state, kAllocated | kWritten | (*state & kOfHost), bytes);
  return reinterpret_cast<uint8_t*>(address);
}

}  // namespace

[[noreturn]] void fail(const Warp& warp, uint32_t mask, const std::string& what) {
  const Block& block = *warp.block;
  const Kernel& kernel = block.cluster->grid->kernel;
  const uint32_t lane = mask != 0 ? static_cast<uint32_t>(std::countr_zero(mask)) : 0;
  const std::string where = warp.current != nullptr ? place_of(kernel, *warp.current) + ": " : "";
  throw Finding{fmt::format("{}{} (block {},{},{}, thread {} of {})", where, what, block.id[0], block.id[1],
                            block.id[2], warp.index * kLanes + lane, readable_name(kernel.name))};
}

std::string place_of(const Kernel& kernel, const Instruction& instruction) {
  if (instruction.line == 0) return "?";
  const std::string_view file = kernel.module->file(instruction.file);
  const size_t src = file.rfind("/src/");
  return fmt::format("{}:{}", src == std::string_view::npos ? file : file.substr(src + 1), instruction.line);
}

std::string readable_name(const std::string& mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string result = text != nullptr ? text : mangled;
  std::free(text);
  for (const std::string_view part : {"void ", "(anonymous namespace)::", "gradmill::"}) {
    for (size_t at; (at = result.find(part)) != std::string::npos;) result.erase(at, part.size());
  }
  return result.substr(0, result.find('('));
}

void expect_started(Warp& warp, const Block& block, int lane) {
  if (&block == warp.block || block.cluster->phase != 0 || !checks(warp)) return;
  const auto num_warps = static_cast<uint32_t>(block.warps.size());
  for (uint32_t n = 0; n < num_warps; ++n) {
    if (warp.known_to(static_cast<uint32_t>(lane)).has_heard(block.rank * num_warps + n, block.shadow.floor())) return;
  }
  fail(warp, 1u << lane,
       "the block whose shared memory this is may not have started: a barrier of the cluster is missing");
}

Block& block_at(Warp& warp, uint32_t& address, int lane) {
  const uint32_t rank = address >> kRankShift;
  if (rank == 0) return *warp.block;
  auto& blocks = warp.block->cluster->blocks;
  if (rank > blocks.size()) fail(warp, 1u << lane, fmt::format("{:#x} is not an address of shared memory", address));
  address &= (1u << kRankShift) - 1;
  Block& block = *blocks[rank - 1];
  if (block.live_warps == 0) fail(warp, 1u << lane, "the block whose shared memory this is has ended");
  expect_started(warp, block, lane);
  return block;
}

namespace {

// The block that owns the memory, and the address in it.
struct SharedPlace {
  Block& block;
  uint32_t address;

  uint8_t* data() const { return block.shared + address; }
};

SharedPlace shared_place(Warp& warp, uint32_t address, uint32_t bytes, int lane) {
  Block& block = block_at(warp, address, lane);
  if (uint64_t{address} + bytes > block.shared_bytes) {
    fail(warp, 1u << lane,
         fmt::format("{} bytes at {:#x} of shared memory, of which the block has {}", bytes, address,
                     block.shared_bytes));
  }
  return {block, address};
}

}  // namespace

uint8_t* shared_at(Warp& warp, uint32_t address, uint32_t bytes, int lane) {
  return shared_place(warp, address, bytes, lane).data();
}

uint8_t* shared_to_read(Warp& warp, uint32_t address, uint32_t bytes, int lane) {
  const SharedPlace place = shared_place(warp, address, bytes, lane);
  if (!checks(warp)) return place.data();
  SharedShadow& shadow = place.block.shadow;
  const SharedShadow::Access access = access_of(warp, lane);
  if (!shadow.read(access, place.address, bytes)) {
    fail_unless_excepted(warp, lane, shadow.describe(access, place.address, bytes, false));
    shadow.note_read(access, place.address, bytes);
  }
  return place.data();
}

uint8_t* shared_to_write(Warp& warp, uint32_t address, uint32_t bytes, int lane, const void* value) {
  const SharedPlace place = shared_place(warp, address, bytes, lane);
  if (!checks(warp)) return place.data();
  SharedShadow& shadow = place.block.shadow;
  const SharedShadow::Access access = access_of(warp, lane);
  expect_not_being_read(warp, place.block, place.address, bytes, lane);
  if (!shadow.write(access, place.address, bytes)) {
    const bool same = value != nullptr && std::memcmp(place.data(), value, bytes) == 0;
    if (!same || !shadow.written_by_this_warp_alone(access, place.address, bytes)) {
      fail(warp, 1u << lane, shadow.describe(access, place.address, bytes, true));
    }
  }
  return place.data();
}

uint8_t* shared_run(Warp& warp, uint32_t address, uint32_t bytes, int lane, uint32_t lane_bytes, bool write) {
  if (warp.lanes_ahead != 0) return nullptr;
  Block& block = block_at(warp, address, lane);
  if (uint64_t{address} + bytes > block.shared_bytes) return nullptr;
  if (!checks(warp)) return block.shared + address;
  const SharedShadow::Access access = access_of(warp, lane, lane_bytes);
  if (write) expect_not_being_read(warp, block, address, bytes, lane);
  const bool clean = write ? block.shadow.write(access, address, bytes) : block.shadow.read(access, address, bytes);
  return clean ? block.shared + address : nullptr;
}

// Atomic operations are ordered among themselves.
uint8_t* shared_for_atomic(Warp& warp, uint32_t address, uint32_t bytes, int lane) {
  uint8_t* const place = shared_at(warp, address, bytes, lane);
  if (!checks(warp)) return place;
  Block& block = block_at(warp, address, lane);
  SharedShadow::Access access = access_of(warp, lane);
  access.atomic = true;
  expect_not_being_read(warp, block, address, bytes, lane);
  const bool is_written = block.shadow.is_written(address, bytes);
  if (!is_written || !block.shadow.write(access, address, bytes)) {
    fail(warp, 1u << lane, block.shadow.describe(access, address, bytes, is_written));
  }
  return place;
}

void expect_fenced(Warp& warp, Block& block, uint32_t address, uint32_t bytes, int lane, const char* reader) {
  const auto num_warps = static_cast<uint32_t>(block.warps.size());
  const uint32_t first = block.rank * num_warps;
  const int64_t at = block.shadow.unfenced(address, bytes, first, num_warps, [&](uint32_t actor, uint32_t by) {
    return block.warps[actor - first].proxy_fences[by];
  });
  if (at < 0) return;
  fail(warp, 1u << lane,
       fmt::format("{} read shared memory at {:#x}, which a thread wrote and has not shown by a proxy fence", reader,
                   at));
}

void expect_reads_fenced(Warp& warp, Block& block, uint32_t address, uint32_t bytes, int lane) {
  // The thread that starts the copy may fence for all threads, after it has learnt that they are done.
  if (warp.proxy_fences[lane] > warp.acquired_at) return;
  const auto num_warps = static_cast<uint32_t>(block.warps.size());
  const uint32_t first = block.rank * num_warps;
  const int64_t at = block.shadow.unfenced_read(address, bytes, first, num_warps, [&](uint32_t actor, uint32_t by) {
    const auto& fences = block.warps[actor - first].proxy_fences;
    return by < kLanes ? fences[by] : *std::max_element(std::begin(fences), std::end(fences));
  });
  if (at < 0) return;
  fail_unless_excepted(
      warp, lane,
      fmt::format(
          "the copy engine is to write shared memory at {:#x}, which a thread has read, and no proxy fence orders "
          "the two",
          at));
}

uint8_t* global_run(Warp& warp, uint64_t address, uint32_t bytes, int lane, bool write) {
  if (!in_space(address, bytes) || warp.lanes_ahead != 0) return nullptr;
  uint8_t* const state = state_of(address);
  const bool checking = checks(warp);
  if (!all_have(state, bytes, !write && checking ? kAllocated | kWritten : kAllocated)) return nullptr;
  if (checking) {
    if (warp.block->pending_writes != 0) expect_not_being_stored(warp, address, bytes, lane);
    const GlobalAccess access = global_access(warp, lane, false);
    if (!(write ? note_global_write(access, address, bytes) : note_global_read(access, address, bytes))) return nullptr;
  }
  if (write) std::memset(state, kAllocated | kWritten | (*state & kOfHost), bytes);
  return reinterpret_cast<uint8_t*>(address);
}

uint8_t* global_to_read(Warp& warp, uint64_t address, uint32_t bytes, int lane) {
  return checked(warp, address, bytes, lane, true, false, false);
}
uint8_t* global_to_copy(Warp& warp, uint64_t address, uint32_t bytes, int lane) {
  return checked(warp, address, bytes, lane, false, false, false);
}
uint8_t* global_to_write(Warp& warp, uint64_t address, uint32_t bytes, int lane) {
  return checked(warp, address, bytes, lane, false, true, false);
}
uint8_t* global_for_atomic(Warp& warp, uint64_t address, uint32_t bytes, int lane) {
  return checked(warp, address, bytes, lane, true, true, true);
}

}  // namespace gradmill::paper::ptx
