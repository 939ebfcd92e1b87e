// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/traffic.h"

#include <algorithm>
#include <array>

#include "paper_gpu/ptx/lanes.h"

namespace gradmill::paper::ptx {
namespace {

constexpr uint64_t kSectorBytes = 32, kBankBytes = 4, kBanks = 32, kCycleBytes = kBankBytes * kBanks;

// A lane's access is at most 32 bytes and aligned to its size, so that it is in one sector.
void count_sectors(Counts& counts, const uint64_t* addresses, uint32_t mask, uint32_t bytes, bool write) {
  std::array<uint64_t, kLanes> seen;
  size_t count = 0;
  for_each_lane(mask, [&](int lane) {
    const uint64_t sector = addresses[lane] / kSectorBytes;
    if (count > 0 && seen[count - 1] == sector) return;
    if (std::find(seen.begin(), seen.begin() + count, sector) != seen.begin() + count) return;
    seen[count++] = sector;
    count_extent(counts, addresses[lane], kSectorBytes, write);
  });
  counts.global_sectors += count;
  (write ? counts.global_bytes_written : counts.global_bytes_read) +=
      static_cast<uint64_t>(std::popcount(mask)) * bytes;
}

// Lanes are served in groups of 128 bytes in total. Different words in one bank take one turn each.
void count_banks(Counts& counts, const uint64_t* addresses, uint32_t mask, uint32_t bytes) {
  const int group = static_cast<int>(std::max<uint64_t>(1, std::min<uint64_t>(kLanes, kCycleBytes / bytes)));
  for (int first = 0; first < kLanes; first += group) {
    std::array<std::array<uint64_t, kLanes>, kBanks> words;
    std::array<size_t, kBanks> count{};
    for (int lane = first; lane < first + group; ++lane) {
      if (!(mask >> lane & 1)) continue;
      for (uint64_t word = addresses[lane] / kBankBytes; word <= (addresses[lane] + bytes - 1) / kBankBytes; ++word) {
        auto& bank = words[word % kBanks];
        size_t& used = count[word % kBanks];
        if (std::find(bank.begin(), bank.begin() + used, word) == bank.begin() + used) bank[used++] = word;
      }
    }
    const size_t cycles = *std::max_element(count.begin(), count.end());
    counts.shared_cycles += cycles;
    counts.shared_least += cycles != 0;
  }
}

}  // namespace

void count_extent(Counts& counts, uint64_t address, uint64_t bytes, bool write) {
  if (bytes == 0) return;
  const auto above = std::upper_bound(counts.extents.begin(), counts.extents.end(), address,
                                      [](uint64_t at, const Extent& extent) { return at < extent.base; });
  if (above == counts.extents.begin()) return;
  Extent& extent = *std::prev(above);
  uint64_t& low = write ? extent.written_low : extent.read_low;
  uint64_t& high = write ? extent.written_high : extent.read_high;
  (write ? extent.bytes_written : extent.bytes_read) += bytes;
  low = std::min(low, address);
  high = std::max(high, address + bytes);
}

void count_traffic_now(Warp& warp, Space space, const uint64_t* addresses, uint32_t mask, uint32_t bytes, bool write) {
  Counts& counts = *grid_of(warp).counts;
  if (space == Space::generic) {
    const uint64_t first = addresses[std::countr_zero(mask)];
    space = first >= kSharedWindow && first < kSharedWindow + kWindowBytes ? Space::shared
            : first >= kLocalWindow && first < kParamWindow + kWindowBytes ? Space::local
                                                                           : Space::global;
  }
  if (space == Space::global) {
    ++counts.global_accesses;
    count_sectors(counts, addresses, mask, bytes, write);
  } else if (space == Space::shared || space == Space::cluster) {
    ++counts.shared_accesses;
    counts.shared_bytes += static_cast<uint64_t>(std::popcount(mask)) * bytes;
    count_banks(counts, addresses, mask, bytes);
  }
}

}  // namespace gradmill::paper::ptx
