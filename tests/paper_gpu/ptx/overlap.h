// SPDX-License-Identifier: Apache-2.0
// Lanes that write to the same location in one instruction.
#pragma once

#include <algorithm>
#include <cstring>

#include "paper_gpu/ptx/lanes.h"

namespace gradmill::paper::ptx {

// A finding if they write different bytes to one location of global memory, because it is undefined which of them
// remain.
template <uint32_t kBytes>
void expect_lanes_agree(Warp& warp, const uint64_t* addresses, uint32_t mask, const uint8_t (&values)[kLanes][kBytes]) {
  int lanes[kLanes], count = 0;
  bool ascend = true;
  for_each_lane(mask, [&](int lane) {
    if (addresses[lane] >= kSharedWindow && addresses[lane] < kParamWindow + kWindowBytes) return;
    ascend = ascend && (count == 0 || addresses[lane] >= addresses[lanes[count - 1]] + kBytes);
    lanes[count++] = lane;
  });
  if (ascend) return;
  std::sort(lanes, lanes + count, [&](int x, int y) { return addresses[x] < addresses[y]; });
  for (int n = 1; n < count; ++n) {
    const int first = lanes[n - 1], second = lanes[n];
    const uint64_t ahead = addresses[second] - addresses[first];
    if (ahead >= kBytes || std::memcmp(values[first] + ahead, values[second], kBytes - ahead) == 0) continue;
    fail(warp, 1u << second, "race: lanes of this warp write different values to one place of global memory");
  }
}

}  // namespace gradmill::paper::ptx
