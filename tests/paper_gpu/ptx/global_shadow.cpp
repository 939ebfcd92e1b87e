// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/global_shadow.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "paper_gpu/shadow.h"

namespace gradmill::paper::ptx {
namespace {

// The last write and the last read of a word of four bytes. From the top: launch 16 bits, block 22, warp 5, atomic 1,
// time 16, and a bit for each byte.
struct Word {
  uint64_t write, read;
};
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
// All but time and bytes.
uint64_t party_of(uint64_t record) { return record >> 21; }

Word* reserve() {
  constexpr size_t kBytes = kSpaceBytes / 4 * sizeof(Word);
  void* const pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    std::fprintf(stderr, "paper GPU: no address space is left for the check of races (see ulimit -v)\n");
    std::_Exit(2);
  }
  return static_cast<Word*>(pages);
}

Word* words() {
  static Word* const all = reserve();
  return all;
}

// The bytes of the word at `at` that [address, address + bytes) has.
uint64_t bytes_in_word(uint64_t at, uint64_t address, uint32_t bytes) {
  const uint64_t from = std::max(at, address) - at, to = std::min(at + 4, address + bytes) - at;
  return ((uint64_t{1} << to) - 1) & ~((uint64_t{1} << from) - 1);
}

// Whether what another warp did before is known to have happened.
bool is_known(const GlobalAccess& access, uint64_t record) {
  const uint64_t block = block_of(record);
  if (block == kSeveralBlocks) return access.known.others.size() != 0;  // it has synchronised with other blocks
  const uint64_t cluster = block / access.cluster_blocks;
  const auto actor = static_cast<uint32_t>(block % access.cluster_blocks * access.warps_per_block) + warp_of(record);
  if (cluster == access.block / access.cluster_blocks) return time_of(record) <= access.known.of(actor);
  return time_of(record) <= access.known.of(cluster, actor);
}

bool conflicts(const GlobalAccess& access, uint64_t record, uint64_t bytes) {
  if (launch_of(record) != access.launch || (record & bytes) == 0) return false;
  if (block_of(record) == access.block && warp_of(record) == access.warp) return false;
  if (access.atomic && is_atomic(record)) return false;
  return !is_known(access, record);
}

template <class Each>
bool for_each_word(uint64_t address, uint32_t bytes, Each&& each) {
  Word* word = words() + (address - kSpaceBegin) / 4;
  const bool whole = address % 4 == 0 && bytes % 4 == 0;
  for (uint64_t at = address & ~uint64_t{3}; at < address + bytes; at += 4, ++word) {
    const uint64_t here = whole ? kByteBits : bytes_in_word(at, address, bytes);
    if (!each(*word, here)) return false;
  }
  return true;
}

uint64_t own_record(const GlobalAccess& access) {
  const uint64_t time = access.known.of(access.actor) + 1;
  return record(access.launch, access.block & kSeveralBlocks, access.warp, access.atomic, time, 0);
}

}  // namespace

bool note_global_read(const GlobalAccess& access, uint64_t address, uint32_t bytes) {
  const uint64_t own = own_record(access);
  return for_each_word(address, bytes, [&](Word& word, uint64_t here) {
    if (launch_of(word.write) == access.launch && conflicts(access, word.write, here)) return false;
    if (party_of(word.read) == party_of(own)) {
      word.read = own | (word.read & kByteBits) | here;
    } else if (launch_of(word.read) != access.launch || (word.read & here) == 0 ||
               block_of(word.read) / access.cluster_blocks == access.block / access.cluster_blocks) {
      word.read = own | here;  // other bytes, and other readers of the cluster, are forgotten
    } else {
      word.read = record(access.launch, kSeveralBlocks, 0, false, 0, word.read & here);
    }
    return true;
  });
}

bool note_global_write(const GlobalAccess& access, uint64_t address, uint32_t bytes) {
  const uint64_t own = own_record(access);
  return for_each_word(address, bytes, [&](Word& word, uint64_t here) {
    if (launch_of(word.write) == access.launch && conflicts(access, word.write, here)) return false;
    if (launch_of(word.read) == access.launch && conflicts(access, word.read, here)) return false;
    word.write = own | here | (party_of(word.write) == party_of(own) ? word.write & kByteBits : 0);
    return true;
  });
}

std::string describe_global(const GlobalAccess& access, uint64_t address, uint32_t bytes, bool write) {
  std::string text;
  for_each_word(address, bytes, [&](Word& word, uint64_t here) {
    const auto say = [&](uint64_t record, const char* verb) {
      const std::string who = block_of(record) == kSeveralBlocks
                                  ? "several blocks"
                                  : fmt::format("warp {} of block {}", warp_of(record), block_of(record));
      text = fmt::format("race: global memory at {:#x} is {}, and {} {} it in the same launch with nothing in between",
                         address, write ? "written" : "read", who, verb);
      return false;
    };
    if (conflicts(access, word.write, here)) return say(word.write, "wrote");
    if (write && conflicts(access, word.read, here)) return say(word.read, "read");
    return true;
  });
  return text;
}

// After 65,535 launches numbers begin again, with nothing noted.
uint32_t next_launch() {
  static uint32_t number = 0;
  if (++number > 0xffff) {
    madvise(words(), kSpaceBytes / 4 * sizeof(Word), MADV_DONTNEED);
    number = 1;
  }
  return number;
}

}  // namespace gradmill::paper::ptx
