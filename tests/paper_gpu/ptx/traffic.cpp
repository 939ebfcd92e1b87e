// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/traffic.h"

#include <algorithm>
#include <array>
#include <set>

#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/lanes.h"

namespace gradmill::paper::ptx {
namespace {

constexpr uint64_t kSectorBytes = 32, kBankBytes = 4, kBanks = 32, kCycleBytes = kBankBytes * kBanks;

uint64_t sectors(const uint64_t* addresses, uint32_t mask, uint32_t bytes) {
  std::array<uint64_t, kLanes> seen;
  size_t count = 0;
  for_each_lane(mask, [&](int lane) {
    for (uint64_t at = addresses[lane] / kSectorBytes; at <= (addresses[lane] + bytes - 1) / kSectorBytes; ++at) {
      if (count < seen.size() && std::find(seen.begin(), seen.begin() + count, at) == seen.begin() + count) {
        seen[count++] = at;
      }
    }
  });
  return count;
}

// Lanes are served in groups that have 128 bytes together; words of one bank take one turn each, but for the same word.
uint64_t bank_cycles(const uint64_t* addresses, uint32_t mask, uint32_t bytes) {
  const int group = static_cast<int>(std::max<uint64_t>(1, std::min<uint64_t>(kLanes, kCycleBytes / bytes)));
  uint64_t cycles = 0;
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
    cycles += *std::max_element(count.begin(), count.end());
  }
  return cycles;
}

}  // namespace

void count_traffic_now(Warp& warp, Space space, const uint64_t* addresses, uint32_t mask, uint32_t bytes, bool write) {
  Counts& counts = *grid_of(warp).counts;
  const auto lanes = static_cast<uint64_t>(std::popcount(mask));
  if (space == Space::generic) {
    const uint64_t first = addresses[std::countr_zero(mask)];
    space = first >= kSharedWindow && first < kSharedWindow + kWindowBytes ? Space::shared
            : first >= kLocalWindow && first < kParamWindow + kWindowBytes ? Space::local
                                                                           : Space::global;
  }
  if (space == Space::global) {
    ++counts.global_accesses;
    (write ? counts.global_bytes_written : counts.global_bytes_read) += lanes * bytes;
    counts.global_sectors += sectors(addresses, mask, bytes);
  } else if (space == Space::shared || space == Space::cluster) {
    ++counts.shared_accesses;
    counts.shared_bytes += lanes * bytes;
    counts.shared_cycles += bank_cycles(addresses, mask, bytes);
  }
}

}  // namespace gradmill::paper::ptx
