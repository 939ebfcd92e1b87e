// SPDX-License-Identifier: Apache-2.0
// Loads, stores, and addresses of spaces.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "paper_gpu/ptx/access.h"
#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/overlap.h"
#include "paper_gpu/ptx/traffic.h"

namespace gradmill::paper::ptx {
namespace {

// kind: the space.
Space space_of(const Instruction& i) { return static_cast<Space>(i.kind); }

// The address that each lane accesses.
struct Addresses {
  alignas(64) uint64_t at[kLanes];

  Addresses(Warp& warp, const Instruction& i) {
    const auto offset = static_cast<uint64_t>(i.offset);
    if (i.flags & kWideAddress) {
      const auto* const a = warp.at<uint64_t>(i.a);
      for (int lane = 0; lane < kLanes; ++lane) at[lane] = a[lane] + offset;
    } else {
      const auto* const a = warp.at<uint32_t>(i.a);
      for (int lane = 0; lane < kLanes; ++lane) at[lane] = a[lane] + static_cast<uint32_t>(offset);
    }
  }

  // The number of lanes from this one on whose bytes are contiguous.
  int in_a_row(int first, uint32_t mask, uint32_t bytes) const {
    int end = first + 1;
    while (end < kLanes && (mask >> end & 1) && at[end] == at[end - 1] + bytes) ++end;
    return end - first;
  }
};

void expect_aligned(Warp& warp, const Addresses& addresses, uint32_t mask, uint32_t bytes) {
  uint64_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits |= mask >> lane & 1 ? addresses.at[lane] : 0;
  if ((bits & (bytes - 1)) == 0) return;
  for_each_lane(mask, [&](int lane) {
    if (addresses.at[lane] % bytes == 0) return;
    fail(warp, 1u << lane, fmt::format("{:#x} is not aligned to {} bytes", addresses.at[lane], bytes));
  });
}

uint8_t* local_at(Warp& warp, uint64_t address, uint32_t bytes, int lane, bool write) {
  Block& block = *warp.block;
  const uint32_t each = grid_of(warp).kernel.local_bytes;
  if (address + bytes > each) {
    fail(warp, 1u << lane,
         fmt::format("{} bytes at {:#x} of a thread's own memory, of which it has {}", bytes, address, each));
  }
  const size_t at = (size_t{warp.index} * kLanes + static_cast<size_t>(lane)) * each + address;
  uint8_t* const written = block.local_written.data() + at;
  if (write) {
    std::memset(written, 1, bytes);
  } else if (checks(warp) && std::memchr(written, 0, bytes) != nullptr) {
    fail(warp, 1u << lane,
         fmt::format("{} bytes at {:#x} of a thread's own memory are read, but it has not written them", bytes,
                     address));
  }
  return block.local.data() + at;
}

const uint8_t* param_at(Warp& warp, uint64_t address, uint32_t bytes, int lane) {
  const Grid& grid = grid_of(warp);
  if (address + bytes > grid.kernel.param_bytes) {
    fail(warp, 1u << lane, fmt::format("{} bytes at {:#x} are no parameter", bytes, address));
  }
  return grid.param_begin + address;
}

// Converts a generic address to one of its space.
Space narrow(uint64_t& address) {
  const auto within = [&](uint64_t window) { return address >= window && address < window + kWindowBytes; };
  for (const auto& [window, space] :
       {std::pair{kSharedWindow, Space::shared}, {kLocalWindow, Space::local}, {kParamWindow, Space::param}}) {
    if (!within(window)) continue;
    address -= window;
    return space;
  }
  return Space::global;
}

const uint8_t* to_read(Warp& warp, Space space, uint64_t address, uint32_t bytes, int lane) {
  if (space == Space::generic) space = narrow(address);
  switch (space) {
    case Space::global:
      return global_to_read(warp, address, bytes, lane);
    case Space::local:
      return local_at(warp, address, bytes, lane, false);
    case Space::param:
      return param_at(warp, address, bytes, lane);
    default:
      return shared_to_read(warp, static_cast<uint32_t>(address), bytes, lane);
  }
}

uint8_t* to_write(Warp& warp, Space space, uint64_t address, uint32_t bytes, int lane, const void* value) {
  if (space == Space::generic) space = narrow(address);
  switch (space) {
    case Space::global:
      return global_to_write(warp, address, bytes, lane);
    case Space::local:
      return local_at(warp, address, bytes, lane, true);
    case Space::param:
      fail(warp, 1u << lane, "a parameter is written");
    default:
      return shared_to_write(warp, static_cast<uint32_t>(address), bytes, lane, value);
  }
}

// The bytes that each active lane accesses, in host memory.
using Places = uint8_t* [kLanes];

// The bytes of `count` lanes with contiguous addresses; null if the lanes must be checked one by one.
uint8_t* run_at(Warp& warp, Space space, uint64_t address, uint32_t bytes, int first, int count, bool write) {
  if (count == 1) return nullptr;
  const uint32_t all = bytes * static_cast<uint32_t>(count);
  if (space == Space::global) return global_run(warp, address, all, first, write);
  if (space == Space::shared) return shared_run(warp, static_cast<uint32_t>(address), all, first, bytes, write);
  return nullptr;
}

void find_to_read(Warp& warp, Space space, const Addresses& addresses, uint32_t mask, uint32_t bytes, Places& places) {
  const bool may_share = space != Space::local && space != Space::generic && warp.lanes_ahead == 0;
  const bool notes_lanes = space == Space::shared || space == Space::cluster;
  int before = -1;
  bool is_repeated = false;  // `before` had the same address as the lane before it
  for (uint32_t left = mask; left != 0;) {
    const int first = std::countr_zero(left);
    const uint64_t address = addresses.at[first];
    // Lanes often read the same address: parameters, scalars.
    if (before >= 0 && may_share && address == addresses.at[before]) {
      // It is recorded whether one lane or several read it; the exact number does not matter.
      if (notes_lanes && !is_repeated) to_read(warp, space, address, bytes, first);
      is_repeated = true;
      places[first] = places[before];
      left &= left - 1;
      continue;
    }
    is_repeated = false;
    const int count = addresses.in_a_row(first, mask, bytes);
    uint8_t* const run = run_at(warp, space, address, bytes, first, count, false);
    for (int lane = first; lane < first + count; ++lane) {
      places[lane] = run != nullptr ? run + uint32_t(lane - first) * bytes
                                    : const_cast<uint8_t*>(to_read(warp, space, addresses.at[lane], bytes, lane));
    }
    before = first + count - 1;
    left = before == kLanes - 1 ? 0 : left >> (before + 1) << (before + 1);
  }
}

// Writes the values in `values` for each lane.
template <uint32_t kBytes>
void write_lanes(Warp& warp, Space space, const Addresses& addresses, uint32_t mask,
                 const uint8_t (&values)[kLanes][kBytes]) {
  for (uint32_t left = mask; left != 0;) {
    const int first = std::countr_zero(left), count = addresses.in_a_row(first, mask, kBytes), end = first + count;
    if (uint8_t* const run = run_at(warp, space, addresses.at[first], kBytes, first, count, true)) {
      std::memcpy(run, values[first], size_t(count) * kBytes);
    } else {
      for (int lane = first; lane < end; ++lane) {
        std::memcpy(to_write(warp, space, addresses.at[lane], kBytes, lane, values[lane]), values[lane], kBytes);
      }
    }
    left = end == kLanes ? 0 : left >> end << end;
  }
}

// Copies from the lanes' bytes to registers as wide as S.
template <class T, int kCount, class S>
void fill_registers(Warp& warp, const Instruction& i, uint32_t mask, const Places& places) {
  for (int n = 0; n < kCount; ++n) {
    if (i.list[size_t(n)] == kNoSlot) continue;
    S* const to = warp.at<S>(i.list[size_t(n)]);
    const auto fill = [&](int lane) {
      T value;
      std::memcpy(&value, places[lane] + n * int{sizeof(T)}, sizeof(T));
      to[lane] = static_cast<S>(static_cast<int64_t>(value));
    };
    if (mask == kAllLanes) {
      for (int lane = 0; lane < kLanes; ++lane) fill(lane);
    } else {
      for_each_lane(mask, fill);
    }
  }
}
// The same for contiguous rows of all lanes.
template <class T, int kCount, class S>
void spread(Warp& warp, const Instruction& i, const uint8_t* from) {
  for (int n = 0; n < kCount; ++n) {
    if (i.list[size_t(n)] == kNoSlot) continue;
    S* const to = warp.at<S>(i.list[size_t(n)]);
    for (int lane = 0; lane < kLanes; ++lane) {
      T value;
      std::memcpy(&value, from + (lane * kCount + n) * int{sizeof(T)}, sizeof(T));
      to[lane] = static_cast<S>(static_cast<int64_t>(value));
    }
  }
}
template <class T, int kCount, class S>
void gather(Warp& warp, const Instruction& i, uint8_t* to) {
  for (int n = 0; n < kCount; ++n) {
    const S* const from = warp.at<S>(i.list[size_t(n)]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const T value = static_cast<T>(from[lane]);
      std::memcpy(to + (lane * kCount + n) * int{sizeof(T)}, &value, sizeof(T));
    }
  }
}

template <class T, int kCount>
void load(Warp& warp, const Instruction& i, uint32_t mask) {
  constexpr uint32_t kBytes = sizeof(T) * kCount;
  const Space space = space_of(i);
  if (space == Space::param && !(i.flags & kWideAddress)) fail(warp, mask, "an address of a parameter");
  const Addresses addresses(warp, i);
  expect_aligned(warp, addresses, mask, kBytes);
  count_traffic(warp, space, addresses.at, mask, kBytes, false);
  if (mask == kAllLanes && addresses.in_a_row(0, mask, kBytes) == kLanes) {
    if (const uint8_t* const from = run_at(warp, space, addresses.at[0], kBytes, 0, kLanes, false)) {
      return i.flags & kWideValue ? spread<T, kCount, uint64_t>(warp, i, from)
                                  : spread<T, kCount, uint32_t>(warp, i, from);
    }
  }
  Places places;
  find_to_read(warp, space, addresses, mask, kBytes, places);
  i.flags& kWideValue ? fill_registers<T, kCount, uint64_t>(warp, i, mask, places)
                      : fill_registers<T, kCount, uint32_t>(warp, i, mask, places);
}

template <class T, int kCount>
void store(Warp& warp, const Instruction& i, uint32_t mask) {
  constexpr uint32_t kBytes = sizeof(T) * kCount;
  const Space space = space_of(i);
  const Addresses addresses(warp, i);
  expect_aligned(warp, addresses, mask, kBytes);
  count_traffic(warp, space, addresses.at, mask, kBytes, true);
  alignas(64) uint8_t values[kLanes][kBytes];
  i.flags& kWideValue ? gather<T, kCount, uint64_t>(warp, i, values[0])
                      : gather<T, kCount, uint32_t>(warp, i, values[0]);
  if ((space == Space::global || space == Space::generic) && checks(warp)) {
    expect_lanes_agree(warp, addresses.at, mask, values);
  }
  write_lanes(warp, space, addresses, mask, values);
}

template <bool kLoad, class T>
Handler handler_of_count(int count) {
  if (count == 1) return kLoad ? load<T, 1> : store<T, 1>;
  if (count == 2) return kLoad ? load<T, 2> : store<T, 2>;
  if constexpr (sizeof(T) <= 4) {
    if (count == 4) return kLoad ? load<T, 4> : store<T, 4>;
  }
  return nullptr;
}

template <bool kLoad>
Handler handler_of(std::string_view type, int count) {
  if (type == "s8") return handler_of_count<kLoad, int8_t>(count);
  if (type == "s16") return handler_of_count<kLoad, int16_t>(count);
  if (type == "s32") return handler_of_count<kLoad, int32_t>(count);
  switch (bytes_of(type)) {
    case 1:
      return handler_of_count<kLoad, uint8_t>(count);
    case 2:
      return handler_of_count<kLoad, uint16_t>(count);
    case 4:
      return handler_of_count<kLoad, uint32_t>(count);
    case 8:
      return handler_of_count<kLoad, uint64_t>(count);
    default:
      return nullptr;
  }
}

uint64_t window_of(Space space) {
  return space == Space::shared || space == Space::cluster ? kSharedWindow
         : space == Space::local                           ? kLocalWindow
         : space == Space::param                           ? kParamWindow
                                                           : 0;
}

// offset: the amount that is added.
void convert_address(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint64_t>(i.a);
  const auto add = static_cast<uint64_t>(i.offset);
  for_lanes(warp.at<uint64_t>(i.d), mask, [&](int lane) { return a[lane] + add; });
}

bool decode_cvta(Decoder& decoder) {
  Instruction& i = decoder.i;
  const bool from_generic = decoder.s.parts.at(1) == "to";
  const uint64_t window = window_of(space_named(decoder.s.parts.at(from_generic ? 2 : 1)));
  i.run = convert_address;
  i.offset = static_cast<int64_t>(from_generic ? 0 - window : window);
  if (decoder.s.type() != "u64") throw std::runtime_error("addresses of 32 bits are not known");
  decoder.write(kD, decoder.operand(0), true);
  decoder.read(kA, decoder.operand(1), true);
  return true;
}

}  // namespace

Space space_named(std::string_view name) {
  if (name == "shared::cluster") return Space::cluster;
  if (name == "shared" || name == "shared::cta") return Space::shared;
  if (name == "global" || name == "const") return Space::global;
  if (name == "local") return Space::local;
  if (name.starts_with("param")) return Space::param;
  return Space::generic;
}

Space space_of(const Statement& statement) {
  for (const std::string_view part : statement.parts) {
    if (const Space space = space_named(part); space != Space::generic) return space;
  }
  return Space::generic;
}

bool decode_memory(Decoder& decoder) {
  const Statement& s = decoder.s;
  if (s.parts[0] == "cvta") return decode_cvta(decoder);
  const bool is_load = s.parts[0] == "ld" || s.parts[0] == "ldu";
  if (!is_load && s.parts[0] != "st") return false;
  if (s.name.starts_with("st.async") || s.name.starts_with("st.bulk")) return false;
  Instruction& i = decoder.i;
  const Operand &value = decoder.operand(is_load ? 0 : 1), &address = decoder.operand(is_load ? 1 : 0);
  Space space = space_of(s);
  if (decoder.address(kA, address, i.offset, space)) i.flags |= kWideAddress;
  if (space == Space::cluster) space = Space::shared;  // the address contains the block
  i.kind = static_cast<uint8_t>(space);
  const Operand& first = value.kind == Operand::Kind::list ? value.parts.at(0) : value;
  bool wide = first.is_number() ? bytes_of(s.type()) == 8 : decoder.is_wide(first);
  if (value.kind == Operand::Kind::list) {
    for (const Operand& part : value.parts) wide |= decoder.is_wide(part);
  }
  if (wide) i.flags |= kWideValue;
  is_load ? decoder.write_list(value, wide) : decoder.read_list(value, wide);
  const auto count = static_cast<int>(i.list.size());
  i.run = is_load ? handler_of<true>(s.type(), count) : handler_of<false>(s.type(), count);
  return i.run != nullptr;
}

}  // namespace gradmill::paper::ptx
