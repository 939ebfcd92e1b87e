// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/shared_shadow.h"

#include <fmt/format.h>

namespace gradmill::paper::ptx {

void SharedShadow::start(uint32_t bytes, uint32_t granule, uint32_t first_engine) {
  first_engine_ = first_engine;
  const uint32_t count = (bytes + granule - 1) / granule;
  const bool same = granule == granule_ && count <= count_ && latest_ < kMostTime / 2;
  if (same) {
    // What earlier blocks left is before the floor.
    floor_ = latest_ + 1;
  } else {
    granule_ = granule;
    count_ = count;
    floor_ = 1;
    latest_ = 0;
    written_.assign(count_, 0);
    lines_.assign((size_t{count_} * granule_ + kLine - 1) / kLine, 0);
    readers_.clear();
  }
}

SharedShadow::Readers& SharedShadow::readers(uint32_t actor) {
  if (readers_.size() <= actor) readers_.resize(actor + 1);
  if (readers_[actor] == nullptr) {
    readers_[actor] = std::make_unique<Readers>();
    readers_[actor]->time.resize(count_);
    readers_[actor]->lane.resize(count_);
  }
  return *readers_[actor];
}

bool SharedShadow::reads_clean(const Access& access, uint32_t address, uint32_t bytes) const {
  const uint32_t first = address / granule_, count = (bytes + granule_ - 1) / granule_;
  const uint32_t* const records = written_.data() + first;
  // Tiles are usually written by one actor at one time.
  uint32_t clean = ~0u;  // not a record: 0 is the record of unwritten memory
  for (uint32_t g = 0; g < count; ++g) {
    const uint32_t record = records[g];
    if (record == clean) continue;
    const uint32_t time = time_of(record);
    if (time < floor_) return false;
    if (is_known(access, record)) {
      clean = record;
    } else if (!own(access, record, g)) {
      return false;
    }
  }
  return true;
}

bool SharedShadow::are_clean_lines(const Access& access, uint32_t address, uint32_t bytes) const {
  if (bytes == 0 || address % kLine != 0 || bytes % kLine != 0) return false;
  for (uint32_t n = address / kLine; n < (address + bytes) / kLine; ++n) {
    const uint32_t record = lines_[n];
    if (record == 0 || (time_of(record) > access.known_of(actor_of(record)) && time_of(record) >= floor_)) return false;
  }
  return true;
}

bool SharedShadow::writes_clean(const Access& access, uint32_t address, uint32_t bytes) const {
  const uint32_t first = address / granule_, count = (bytes + granule_ - 1) / granule_;
  const uint32_t* const records = written_.data() + first;
  uint32_t clean = 0;
  for (uint32_t g = are_clean_lines(access, address, bytes) ? count : 0; g < count; ++g) {
    const uint32_t record = records[g];
    if (record == clean) continue;
    if (time_of(record) < floor_ || is_known(access, record)) {
      clean = record;
    } else if (!own(access, record, g)) {
      return false;
    }
  }
  for (uint32_t actor = 0; actor < readers_.size(); ++actor) {
    if (readers_[actor] == nullptr) continue;
    const uint16_t* const times = readers_[actor]->time.data() + first;
    const auto known = static_cast<uint16_t>(std::max(access.known_of(actor), floor_ - 1));
    uint16_t latest = 0;
    for (uint32_t g = 0; g < count; ++g) latest = std::max(latest, times[g]);
    if (latest <= known) continue;
    const uint8_t* const lanes = readers_[actor]->lane.data() + first;
    for (uint32_t g = 0; g < count; ++g) {
      if (times[g] > known && !is_known_read(access, lane_at(access, g), actor, lanes[g], times[g])) return false;
    }
  }
  return true;
}

bool SharedShadow::is_written(uint32_t address, uint32_t bytes) const {
  for (uint32_t g = address / granule_; g < (address + bytes + granule_ - 1) / granule_; ++g) {
    if (time_of(written_[g]) < floor_) return false;
  }
  return true;
}

bool SharedShadow::written_by_this_warp_alone(const Access& access, uint32_t address, uint32_t bytes) const {
  const uint32_t first = address / granule_, count = (bytes + granule_ - 1) / granule_;
  for (uint32_t g = first; g < first + count; ++g) {
    if (actor_of(written_[g]) != access.actor || time_of(written_[g]) != now(access)) return false;
    for (uint32_t actor = 0; actor < readers_.size(); ++actor) {
      if (readers_[actor] == nullptr || readers_[actor]->time[g] < floor_) continue;
      if (readers_[actor]->time[g] > access.known_of(actor)) return false;
    }
  }
  return true;
}

void SharedShadow::note_read(const Access& access, uint32_t address, uint32_t bytes) {
  const uint32_t first = address / granule_, count = (bytes + granule_ - 1) / granule_;
  Readers& all = readers(access.actor);
  const uint32_t time = now(access);
  latest_ = std::max(latest_, time);
  uint16_t* const times = all.time.data() + first;
  uint8_t* const lanes = all.lane.data() + first;
  constexpr uint8_t kSeveral = 0xff;
  for (uint32_t g = 0; g < count; ++g) {
    const auto lane = static_cast<uint8_t>(lane_at(access, g));
    const bool is_recent = times[g] > access.lanes_met && times[g] >= floor_;
    lanes[g] = is_recent && lanes[g] != lane && !by_no_thread(lanes[g]) ? kSeveral : lane;
    times[g] = static_cast<uint16_t>(time);
  }
}

void SharedShadow::note_chunks(const Access& access, const uint32_t* addresses, uint32_t count) {
  constexpr uint32_t kChunk = 16;
  Readers& own = readers(access.actor);
  for (uint32_t n = 0; n < count; ++n) {
    if (granule_ * 4 == kChunk && note_four(access, own, addresses[n] / granule_)) continue;
    note_read(access, addresses[n], kChunk);
  }
}

void SharedShadow::note_write(const Access& access, uint32_t address, uint32_t bytes, uint32_t time) {
  const uint32_t first = address / granule_, count = (bytes + granule_ - 1) / granule_;
  if (time != kPending) latest_ = std::max(latest_, time);
  uint32_t* const records = written_.data() + first;
  const uint32_t record = access.actor << 22 | (access.atomic ? kAtomic : 0) | time;
  part_lines(address, bytes);
  if (access.lane_bytes != 0) {
    for (uint32_t g = 0; g < count; ++g) records[g] = record | lane_at(access, g) << 16;
    return;
  }
  std::fill_n(records, count, record | access.lane << 16);
  for (uint32_t n = (address + kLine - 1) / kLine; n < (address + bytes) / kLine; ++n) {
    lines_[n] = record | access.lane << 16;
  }
}

void SharedShadow::note_barrier(uint32_t address, uint32_t bytes) {
  part_lines(address, bytes);
  for (uint32_t g = address / granule_; g < (address + bytes + granule_ - 1) / granule_; ++g) {
    written_[g] = kBarrierActor << 22 | kPending;
  }
}

void SharedShadow::forget(uint32_t address, uint32_t bytes) {
  part_lines(address, bytes);
  for (uint32_t g = address / granule_; g < (address + bytes + granule_ - 1) / granule_; ++g) written_[g] = 0;
}

std::string SharedShadow::describe(const Access& access, uint32_t address, uint32_t bytes, bool write) const {
  const uint32_t first = address / granule_, count = (bytes + granule_ - 1) / granule_;
  const char* const verb = write ? "written" : "read";
  const auto by = [&](uint32_t actor, uint32_t lane) {
    if (actor != access.actor) return fmt::format("warp {}", actor);
    return by_no_thread(lane) ? "a product or copy of this warp" : fmt::format("lane {} of this warp", lane);
  };
  for (uint32_t g = 0; g < count; ++g) {
    const uint32_t record = written_[first + g], time = time_of(record), actor = actor_of(record);
    const uint32_t at = (first + g) * granule_;
    if (time < floor_) {
      if (!write) return fmt::format("shared memory at {:#x} is read, but nothing has written it", at);
      continue;
    }
    if (is_known(access, record) || own(access, record, g)) continue;
    if (actor == kBarrierActor) return fmt::format("shared memory at {:#x} is {}, but holds a barrier", at, verb);
    if (time == kPending || actor >= first_engine_) {
      return fmt::format("shared memory at {:#x} is {} before the copy to it has been waited for", at, verb);
    }
    return fmt::format("race: shared memory at {:#x} is {}, and {} wrote it without a barrier in between", at, verb,
                       by(actor, lane_of(record)));
  }
  for (uint32_t actor = 0; write && actor < readers_.size(); ++actor) {
    if (readers_[actor] == nullptr) continue;
    for (uint32_t g = 0; g < count; ++g) {
      const uint32_t time = readers_[actor]->time[first + g], lane = readers_[actor]->lane[first + g];
      if (time < floor_ || is_known_read(access, lane_at(access, g), actor, lane, time)) continue;
      return fmt::format("race: shared memory at {:#x} is written, and {} read it without a barrier in between",
                         (first + g) * granule_, by(actor, lane));
    }
  }
  return "an access of shared memory that is not clean";
}

}  // namespace gradmill::paper::ptx
