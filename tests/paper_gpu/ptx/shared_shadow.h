// SPDX-License-Identifier: Apache-2.0
// The last writer and the last readers of each granule of a block's shared memory, with times. Finds unordered accesses
// and reads of unwritten memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "paper_gpu/ptx/clocks.h"

namespace gradmill::paper::ptx {

class SharedShadow {
 public:
  // An access: the actor, and what it knows. `row` advances the lane for each `lane_bytes` bytes.
  struct Access {
    uint32_t actor;
    uint32_t lane;
    const Knowledge& known;
    uint32_t lanes_met = 0;   // until when lanes of the actor know of each other
    uint32_t lane_bytes = 0;  // 0: all bytes belong to `lane`
    bool atomic = false;      // ordered with other atomic accesses

    // Until when everything that an actor's lanes have done is known.
    uint32_t known_of(uint32_t other) const { return other == actor ? lanes_met : known.of(other); }
  };

  // Starts a new block with unwritten memory. All clocks begin at floor(). Actors from first_engine on are copy
  // engines.
  void start(uint32_t bytes, uint32_t granule, uint32_t first_engine);
  uint32_t floor() const { return floor_; }
  // Raises it to that of the cluster's other blocks.
  void raise_floor(uint32_t floor) {
    floor_ = floor;
    latest_ = std::max(latest_, floor - 1);
  }

  // Returns true and records the access if it is ordered after all conflicting accesses.
  bool read(const Access& access, uint32_t address, uint32_t bytes) {
    if (bytes == 4 * granule_ && access.lane_bytes == 0 && read_four(access, address / granule_)) return true;
    return reads_clean(access, address, bytes) && (note_read(access, address, bytes), true);
  }
  bool write(const Access& access, uint32_t address, uint32_t bytes) {
    return writes_clean(access, address, bytes) && (note_write(access, address, bytes, now(access)), true);
  }
  // The same in parts, for work that is performed later than it is started.
  bool reads_clean(const Access& access, uint32_t address, uint32_t bytes) const;
  bool writes_clean(const Access& access, uint32_t address, uint32_t bytes) const;
  void note_read(const Access& access, uint32_t address, uint32_t bytes);
  void note_write(const Access& access, uint32_t address, uint32_t bytes, uint32_t time);
  // Reads of chunks of 16 bytes by products.
  void note_chunks(const Access& access, const uint32_t* addresses, uint32_t count);
  // Whether the whole range was delivered by one copy engine at one time, and the access knows that. False may also
  // mean that a detailed check is needed.
  bool is_known_tile(const Access& access, uint32_t address, uint32_t bytes) const {
    const size_t first = address / kLine, end = (address + bytes + kLine - 1) / kLine;
    if (end > lines_.size()) return false;
    const uint32_t record = lines_[first];
    for (size_t n = first + 1; n < end; ++n) {
      if (lines_[n] != record) return false;
    }
    return actor_of(record) >= first_engine_ && time_of(record) >= floor_ &&
           time_of(record) <= access.known_of(actor_of(record));
  }
  // Written by a pending copy: must not be read or written.
  void note_pending(const Access& access, uint32_t address, uint32_t bytes) {
    note_write(access, address, bytes, kPending);
  }
  // There is a barrier at this address.
  void note_barrier(uint32_t address, uint32_t bytes);
  void forget(uint32_t address, uint32_t bytes);

  bool is_written(uint32_t address, uint32_t bytes) const;
  // Whether no other warp is involved in the conflict of a write, and lanes of this warp have only written.
  bool written_by_this_warp_alone(const Access& access, uint32_t address, uint32_t bytes) const;
  // Describes the problem after an access that was not clean.
  std::string describe(const Access& access, uint32_t address, uint32_t bytes, bool write) const;
  // The first byte that a warp wrote after its last proxy fence, or -1. `fences(actor, lane)` returns the time of that
  // fence.
  template <class Fences>
  int64_t unfenced(uint32_t address, uint32_t bytes, uint32_t first_warp, uint32_t num_warps, Fences&& fences) const {
    uint32_t last = 0;
    for (uint32_t g = address / granule_; g < (address + bytes + granule_ - 1) / granule_; ++g) {
      const uint32_t record = written_[g];
      if (record == last || time_of(record) < floor_ || actor_of(record) - first_warp >= num_warps) continue;
      last = record;
      if (time_of(record) >= fences(actor_of(record), lane_of(record))) return int64_t{g} * granule_;
    }
    return -1;
  }

  // The same for reads by threads; reads of products and copies need no fence.
  template <class Fences>
  int64_t unfenced_read(uint32_t address, uint32_t bytes, uint32_t first_warp, uint32_t num_warps,
                        Fences&& fences) const {
    const uint32_t first = address / granule_, count = (bytes + granule_ - 1) / granule_;
    for (uint32_t actor = first_warp; actor < std::min<size_t>(first_warp + num_warps, readers_.size()); ++actor) {
      if (readers_[actor] == nullptr || last_read_by_threads(*readers_[actor], first, count) < floor_) continue;
      for (uint32_t g = first; g < first + count; ++g) {
        const uint32_t time = readers_[actor]->time[g], lane = readers_[actor]->lane[g];
        if (time >= floor_ && !by_no_thread(lane) && time >= fences(actor, lane)) return int64_t{g} * granule_;
      }
    }
    return -1;
  }
  // The lane that marks reads by products, and the amount added to the lane of a thread whose copy has read.
  static constexpr uint32_t kByUnits = 0x3e, kByEngine = 0x40;
  // The largest time that can be recorded.
  static constexpr uint32_t kMostTime = 0xff00;

 private:
  static constexpr uint32_t kLine = 1024;  // in bytes
  static constexpr uint32_t kPending = 0xffff, kAtomic = 0x20u << 16, kBarrierActor = 0x3ff;

  struct Readers {
    std::vector<uint16_t> time;
    std::vector<uint8_t> lane;
  };

  static uint32_t time_of(uint32_t record) { return record & 0xffff; }
  static uint32_t lane_of(uint32_t record) { return record >> 16 & 0x1f; }
  static bool is_atomic(uint32_t record) { return record & kAtomic; }
  static uint32_t actor_of(uint32_t record) { return record >> 22; }
  static uint32_t now(const Access& access) { return access.known.of(access.actor) + 1; }
  uint32_t lane_at(const Access& access, uint32_t granule_in_access) const {
    return access.lane_bytes == 0 ? access.lane : access.lane + granule_in_access * granule_ / access.lane_bytes;
  }
  bool own(const Access& access, uint32_t record, uint32_t granule_in_access) const {
    if (access.atomic && is_atomic(record) && actor_of(record) != kBarrierActor) return time_of(record) != kPending;
    return actor_of(record) == access.actor && lane_of(record) == lane_at(access, granule_in_access) &&
           time_of(record) != kPending;
  }
  Readers& readers(uint32_t actor);
  static bool by_no_thread(uint32_t lane) { return lane == kByUnits || (lane & ~31u) == kByEngine; }
  // Whether a lane may overwrite what its warp has read. A copy's read counts as that of the lane that has waited for
  // it, and all lanes have waited for products.
  static bool may_write(uint32_t lane, uint32_t reader) {
    return reader == lane || reader == (kByEngine | lane) || reader == kByUnits;
  }
  static bool is_known(const Access& access, uint32_t record) {
    return time_of(record) <= access.known_of(actor_of(record)) ||
           (time_of(record) != kPending && access.known.of_lane(actor_of(record), lane_of(record), time_of(record)));
  }
  static bool is_known_read(const Access& access, uint32_t writer, uint32_t actor, uint32_t lane, uint32_t time) {
    if (time <= access.known_of(actor)) return true;
    if (actor == access.actor && may_write(writer, lane)) return true;
    if (lane != kByUnits) return access.known.of_lane(actor, lane & ~kByEngine, time);
    return access.known.has_heard(actor, time);  // every lane has waited for them
  }
  static uint32_t last_read_by_threads(const Readers& readers, uint32_t first, uint32_t count) {
    uint16_t last = 0;
    for (uint32_t g = first; g < first + count; ++g) {
      last = std::max(last, by_no_thread(readers.lane[g]) ? uint16_t{0} : readers.time[g]);
    }
    return last;
  }

  // Partly written ranges no longer have a single record.
  void part_lines(uint32_t address, uint32_t bytes) {
    for (uint32_t n = address / kLine; n < (address + bytes + kLine - 1) / kLine; ++n) lines_[n] = 0;
  }
  // Whether these are whole lines, each with a single record that may be overwritten.
  bool are_clean_lines(const Access& access, uint32_t address, uint32_t bytes) const;
  // Records a read of four granules. Returns false and records nothing if the actor may have read some of them in
  // another lane after its lanes met.
  bool note_four(const Access& access, Readers& own, uint32_t first) {
    constexpr uint64_t kOnes = 0x0001000100010001u;
    const uint32_t time = now(access), lanes = access.lane * 0x01010101u;
    const uint64_t times = time * kOnes;
    uint32_t lanes_before;
    uint64_t before;
    std::memcpy(&before, own.time.data() + first, sizeof(before));
    std::memcpy(&lanes_before, own.lane.data() + first, sizeof(lanes_before));
    const uint64_t differ = before ^ times;
    if (differ == 0 && lanes == lanes_before) return true;
    if (((differ - kOnes) & ~differ & (kOnes << 15)) != 0) return false;
    if (lanes != lanes_before && access.lanes_met + 1 != time) return false;
    std::memcpy(own.time.data() + first, &times, sizeof(times));
    std::memcpy(own.lane.data() + first, &lanes, sizeof(lanes));
    latest_ = std::max(latest_, time);
    return true;
  }

  // The common case of read(): four granules that one actor wrote at one time. False in other cases.
  bool read_four(const Access& access, uint32_t first) {
    uint64_t records[2];
    std::memcpy(records, written_.data() + first, sizeof(records));
    const auto record = static_cast<uint32_t>(records[0]);
    if (records[0] != records[1] || records[0] >> 32 != record) return false;
    if (time_of(record) < floor_ || time_of(record) > access.known_of(actor_of(record))) return false;
    if (access.actor >= readers_.size() || readers_[access.actor] == nullptr) return false;
    return note_four(access, *readers_[access.actor], first);
  }

  uint32_t granule_ = 4, count_ = 0, floor_ = 1, first_engine_ = 0;
  mutable uint32_t latest_ = 0;
  std::vector<uint32_t> written_;  // actor, lane, time
  std::vector<uint32_t> lines_;    // per kLine bytes: the record shared by all granules, or 0
  std::vector<std::unique_ptr<Readers>> readers_;
};

}  // namespace gradmill::paper::ptx
