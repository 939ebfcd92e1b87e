// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/global_shadow.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "paper_gpu/shadow.h"

namespace gradmill::paper::ptx {
namespace {

// A record describes the last write or the last read of a four-byte word. From the top: launch 16 bits, block 22, warp
// 5, atomic 1, time 16, and one bit per byte.
constexpr uint64_t kSeveralBlocks = (uint64_t{1} << 22) - 1;

constexpr uint64_t record(uint64_t launch, uint64_t block, uint64_t warp, bool atomic, uint64_t time, uint64_t bytes) {
  return launch << 48 | block << 26 | warp << 21 | uint64_t{atomic} << 20 | time << 4 | bytes;
}
uint64_t launch_of(uint64_t record) { return record >> 48; }
uint64_t block_of(uint64_t record) { return record >> 26 & kSeveralBlocks; }
uint32_t warp_of(uint64_t record) { return record >> 21 & 31; }
bool is_atomic(uint64_t record) { return record >> 20 & 1; }
uint32_t time_of(uint64_t record) { return record >> 4 & 0xffff; }
constexpr uint64_t kByteBits = 15;
// Everything except time and bytes.
uint64_t party_of(uint64_t record) { return record >> 21; }

constexpr size_t kWords = kSpaceBytes / 4;

uint64_t* reserve() {
  void* const pages = mmap(nullptr, 2 * kWords * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    std::fprintf(stderr, "paper GPU: no address space is left for the check of races (see ulimit -v)\n");
    std::_Exit(2);
  }
  return static_cast<uint64_t*>(pages);
}

// The records of writes for all words, then those of reads.
uint64_t* records() {
  static uint64_t* const all = reserve();
  return all;
}

struct Words {
  uint64_t *writes, *reads;

  explicit Words(uint64_t address) : writes(records() + (address - kSpaceBegin) / 4), reads(writes + kWords) {}
};

// The bytes of the word at `at` that are in [address, address + bytes).
uint64_t bytes_in_word(uint64_t at, uint64_t address, uint32_t bytes) {
  const uint64_t from = std::max(at, address) - at, to = std::min(at + 4, address + bytes) - at;
  return ((uint64_t{1} << to) - 1) & ~((uint64_t{1} << from) - 1);
}

// Whether an earlier access by another warp is known to have happened.
bool is_known(const GlobalAccess& access, uint64_t record) {
  const uint64_t block = block_of(record);
  if (block == kSeveralBlocks) return access.known.others.size() != 0;  // it has synchronised with other blocks
  const uint64_t cluster = block / access.cluster_blocks;
  const auto actor = static_cast<uint32_t>(block % access.cluster_blocks * access.warps_per_block) + warp_of(record);
  // The lane is not recorded.
  if (block - access.first_block < access.cluster_blocks) return access.known.has_heard(actor, time_of(record));
  return time_of(record) <= access.known.of(cluster, actor);
}

bool conflicts(const GlobalAccess& access, uint64_t record, uint64_t bytes) {
  if (launch_of(record) != access.launch || (record & bytes) == 0) return false;
  if (block_of(record) == access.block && warp_of(record) == access.warp) return false;
  if (access.atomic && is_atomic(record)) return false;
  return !is_known(access, record);
}

// Calls each(write, read, bytes of the word) until it returns false.
template <class Each>
bool for_each_word(uint64_t address, uint32_t bytes, Each&& each) {
  Words words(address);
  for (uint64_t at = address & ~uint64_t{3}; at < address + bytes; at += 4, ++words.writes, ++words.reads) {
    if (!each(*words.writes, *words.reads, bytes_in_word(at, address, bytes))) return false;
  }
  return true;
}

bool has_whole_words(uint64_t address, uint32_t bytes) { return address % 4 == 0 && bytes % 4 == 0; }

// Whether another warp has a record in this launch.
bool has_others(const uint64_t* records, size_t count, uint64_t own) {
  bool others = false;
  for (size_t n = 0; n < count; ++n) {
    const uint64_t differs = records[n] ^ own;
    others |= launch_of(differs) == 0 && party_of(differs) != 0;
  }
  return others;
}
bool has_any(const uint64_t* records, size_t count, uint64_t own) {
  bool any = false;
  for (size_t n = 0; n < count; ++n) any |= launch_of(records[n] ^ own) == 0;
  return any;
}

uint64_t own_record(const GlobalAccess& access) {
  const uint64_t time = access.known.of(access.actor) + 1;
  return record(access.launch, access.block & kSeveralBlocks, access.warp, access.atomic, time, 0);
}

// The record after one more read. Other bytes, and other readers of the cluster, are forgotten.
uint64_t with_read(const GlobalAccess& access, uint64_t own, uint64_t before, uint64_t here) {
  const uint64_t several = record(access.launch, kSeveralBlocks, 0, false, 0, before & here);
  const uint64_t differs = before ^ own;
  const bool in_launch = launch_of(differs) == 0 && (before & here) != 0;
  const bool in_cluster = block_of(before) - access.first_block < access.cluster_blocks;
  const uint64_t others = in_launch && !in_cluster ? several : own | here;
  return party_of(differs) == 0 ? own | (before & kByteBits) | here : others;
}

}  // namespace

bool note_global_read(const GlobalAccess& access, uint64_t address, uint32_t bytes) {
  const uint64_t own = own_record(access);
  if (has_whole_words(address, bytes)) {
    const Words words(address);
    const size_t count = bytes / 4;
    if (!has_any(words.writes, count, own)) {
      for (size_t n = 0; n < count; ++n) words.reads[n] = with_read(access, own, words.reads[n], kByteBits);
      return true;
    }
  }
  return for_each_word(address, bytes, [&](uint64_t write, uint64_t& read, uint64_t here) {
    if (conflicts(access, write, here)) return false;
    read = with_read(access, own, read, here);
    return true;
  });
}

bool note_global_write(const GlobalAccess& access, uint64_t address, uint32_t bytes) {
  const uint64_t own = own_record(access);
  if (has_whole_words(address, bytes)) {
    const Words words(address);
    const size_t count = bytes / 4;
    if (!has_others(words.writes, count, own) && !has_others(words.reads, count, own)) {
      std::fill_n(words.writes, count, own | kByteBits);
      return true;
    }
  }
  return for_each_word(address, bytes, [&](uint64_t& write, uint64_t read, uint64_t here) {
    if (conflicts(access, write, here) || conflicts(access, read, here)) return false;
    write = own | here | (party_of(write) == party_of(own) ? write & kByteBits : 0);
    return true;
  });
}

std::string describe_global(const GlobalAccess& access, uint64_t address, uint32_t bytes, bool write) {
  std::string text;
  for_each_word(address, bytes, [&](uint64_t last_write, uint64_t last_read, uint64_t here) {
    const auto say = [&](uint64_t record, const char* verb) {
      const std::string who = block_of(record) == kSeveralBlocks
                                  ? "several blocks"
                                  : fmt::format("warp {} of block {}", warp_of(record), block_of(record));
      text = fmt::format("race: global memory at {:#x} is {}, and {} {} it in the same launch with nothing in between",
                         address, write ? "written" : "read", who, verb);
      return false;
    };
    if (conflicts(access, last_write, here)) return say(last_write, "wrote");
    if (write && conflicts(access, last_read, here)) return say(last_read, "read");
    return true;
  });
  return text;
}

// After 65,535 launches the numbers start again, with empty records.
uint32_t next_launch() {
  static uint32_t number = 0;
  if (++number > 0xffff) {
    madvise(records(), 2 * kWords * sizeof(uint64_t), MADV_DONTNEED);
    number = 1;
  }
  return number;
}

}  // namespace gradmill::paper::ptx
