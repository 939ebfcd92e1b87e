// SPDX-License-Identifier: Apache-2.0
// Atomic operations, in the order of lanes, and the knowledge that they pass from block to block.
#include <bit>
#include <cstring>

#include "paper_gpu/ptx/access.h"
#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/short_floats.h"
#include "paper_gpu/ptx/traffic.h"

namespace gradmill::paper::ptx {
namespace {

// Additional flags, besides those of addresses.
constexpr uint8_t kRelease = 8, kAcquire = 16;

struct Add {
  template <class T>
  T operator()(T a, T b, T) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    } else {
      return a + b;
    }
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b, T) const {
    return b < a ? b : a;
  }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b, T) const {
    return a < b ? b : a;
  }
};
struct Exchange {
  template <class T>
  T operator()(T, T b, T) const {
    return b;
  }
};
struct CompareAndSwap {
  template <class T>
  T operator()(T a, T b, T c) const {
    return a == b ? c : a;
  }
};
struct Increment {
  template <class T>
  T operator()(T a, T b, T) const {
    return a >= b ? T(0) : static_cast<T>(a + 1);
  }
};
struct Decrement {
  template <class T>
  T operator()(T a, T b, T) const {
    return a == 0 || a > b ? b : static_cast<T>(a - 1);
  }
};
struct And {
  template <class T>
  T operator()(T a, T b, T) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b, T) const {
    return a | b;
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b, T) const {
    return a ^ b;
  }
};
template <class T>
struct AddPair {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t) const {
    const auto low = T::rounded(unpack<T>(a & 0xffff).number() + unpack<T>(b & 0xffff).number());
    const auto high = T::rounded(unpack<T>(a >> 16).number() + unpack<T>(b >> 16).number());
    return low | uint32_t{high} << 16;
  }
};

// Adds 16-bit floats, rounded once.
template <class T>
struct AddShort {
  uint16_t operator()(uint16_t a, uint16_t b, uint16_t) const {
    return T::rounded(unpack<T>(a).number() + unpack<T>(b).number());
  }
};

// fp32 sums flush subnormal numbers in global memory, and keep them in shared memory.
template <class F, class T>
T result_of(T before, T b, T c, bool shared) {
  if constexpr (std::is_same_v<T, float> && std::is_same_v<F, Add>) {
    if (!shared) return flushed(flushed(before) + flushed(b));
  }
  return F()(before, b, c);
}

// Passes on knowledge through the address in global memory.
void pass_on(Warp& warp, const Instruction& i, uint64_t address) {
  Knowledge& there = grid_of(warp).released[address];
  // What any cluster released at this address becomes known to the warp.
  const auto cluster = warp.block->number / grid_of(warp).launch.cluster;
  Knowledge seen;
  for (const auto& [other, clock] : there.others) {
    if (other == cluster) {
      seen.clock = clock;
    } else {
      seen.others[other] = clock;
    }
  }
  if (i.flags & kAcquire) {
    acquire_of_warps(warp, seen);
  } else {
    warp.seen.join(seen);
    warp.has_seen = true;
  }
  const Knowledge* mine = nullptr;
  if (i.flags & kRelease) {
    advance(warp);
    mine = &warp.known;
  } else if (warp.has_fenced) {
    mine = &warp.fenced;
  }
  if (mine == nullptr) return;
  for (const auto& [other, clock] : mine->others) Knowledge::join(there.others[other], clock);
  Knowledge::join(there.others[cluster], mine->clock);
}

template <class T, class F>
void atomic(Warp& warp, const Instruction& i, uint32_t mask) {
  const bool wide = i.flags & kWideAddress;
  if (Counts* const counts = grid_of(warp).counts) {
    counts->atomics += uint64_t(std::popcount(mask));
    uint64_t addresses[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      addresses[lane] = (wide ? warp.at<uint64_t>(i.a)[lane] : warp.at<uint32_t>(i.a)[lane]) + uint64_t(i.offset);
    }
    count_traffic_now(warp, static_cast<Space>(i.kind), addresses, mask, sizeof(T), true);
  }
  const auto* const b = warp.at<SlotOf<T>>(i.b);
  const auto* const c = i.c == kNoSlot ? b : warp.at<SlotOf<T>>(i.c);
  auto* const d = i.d == kNoSlot ? nullptr : warp.at<SlotOf<T>>(i.d);
  for_each_lane(mask, [&](int lane) {
    uint64_t address = (wide ? warp.at<uint64_t>(i.a)[lane] : warp.at<uint32_t>(i.a)[lane]) + uint64_t(i.offset);
    bool shared = static_cast<Space>(i.kind) == Space::shared;
    if (static_cast<Space>(i.kind) == Space::generic && address >= kSharedWindow &&
        address < kSharedWindow + kWindowBytes) {
      shared = true;
      address -= kSharedWindow;
    }
    if (address % sizeof(T) != 0) fail(warp, 1u << lane, "an atomic operation at an address that is not aligned");
    uint8_t* const place = shared ? shared_for_atomic(warp, static_cast<uint32_t>(address), sizeof(T), lane)
                                  : global_for_atomic(warp, address, sizeof(T), lane);
    T before;
    std::memcpy(&before, place, sizeof(T));
    const T after = result_of<F, T>(before, unpack<T>(b[lane]), unpack<T>(c[lane]), shared);
    std::memcpy(place, &after, sizeof(T));
    if (d != nullptr) d[lane] = pack<T>(before);
    if (!shared && checks(warp)) pass_on(warp, i, address);
  });
}

template <class T>
Handler handler_of(std::string_view name) {
  if (name == "add") return atomic<T, Add>;
  if (name == "min") return atomic<T, Minimum>;
  if (name == "max") return atomic<T, Maximum>;
  if (name == "exch") return atomic<T, Exchange>;
  if (name == "cas") return atomic<T, CompareAndSwap>;
  if constexpr (std::is_unsigned_v<T>) {
    if (name == "inc") return atomic<T, Increment>;
    if (name == "dec") return atomic<T, Decrement>;
  }
  if constexpr (std::is_integral_v<T>) {
    if (name == "and") return atomic<T, And>;
    if (name == "or") return atomic<T, Or>;
    if (name == "xor") return atomic<T, Xor>;
  }
  return nullptr;
}

}  // namespace

bool decode_atomic(Decoder& decoder) {
  const Statement& s = decoder.s;
  const bool returns = s.parts[0] == "atom";
  if (!returns && s.parts[0] != "red") return false;
  Instruction& i = decoder.i;
  std::string_view operation;
  for (const std::string_view name : {"add", "min", "max", "exch", "cas", "inc", "dec", "and", "or", "xor"}) {
    if (s.has(name)) operation = name;
  }
  if (s.has("async") || s.has("v2") || s.has("v4") || s.has("v8")) return false;
  if (s.type() == "f16" || s.type() == "bf16") {
    if (operation == "add")
      i.run = s.type() == "f16" ? atomic<uint16_t, AddShort<Half>> : atomic<uint16_t, AddShort<Brain>>;
  } else if (s.type() == "b16") {
    if (operation == "cas") i.run = atomic<uint16_t, CompareAndSwap>;
  } else if (s.type() == "f16x2" || s.type() == "bf16x2") {
    if (operation == "add")
      i.run = s.type() == "f16x2" ? atomic<uint32_t, AddPair<Half>> : atomic<uint32_t, AddPair<Brain>>;
  } else {
    with_type(s.type(), [&]<class T>(T) {
      if constexpr (sizeof(T) >= 4) i.run = handler_of<T>(operation);
      return true;
    });
  }
  if (i.run == nullptr) return false;
  if (s.has("release") || s.has("acq_rel") || s.has("sc")) i.flags |= kRelease;
  if (s.has("acquire") || s.has("acq_rel") || s.has("sc")) i.flags |= kAcquire;
  const bool wide = bytes_of(s.type()) == 8;
  size_t at = 0;
  if (returns) decoder.write(kD, decoder.operand(at++), wide);
  Space space = space_of(s);
  if (decoder.address(kA, decoder.operand(at++), i.offset, space)) i.flags |= kWideAddress;
  i.kind = static_cast<uint8_t>(space == Space::cluster ? Space::shared : space);
  decoder.read(kB, decoder.operand(at++), wide);
  if (at < decoder.size()) decoder.read(kC, decoder.operand(at), wide);
  return true;
}

}  // namespace gradmill::paper::ptx
