// SPDX-License-Identifier: Apache-2.0
// What is known of each byte of the paper GPU's memory: whether it belongs to a tensor, and whether somebody has
// written it. All of that memory lies in one range of addresses, so that what is known of a byte is found by
// arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gradmill::paper {

// The range, and one byte of state for each of its bytes.
inline constexpr uint64_t kSpaceBegin = uint64_t{1} << 45, kSpaceBytes = uint64_t{1} << 40;
inline constexpr uint64_t kSpaceEnd = kSpaceBegin + kSpaceBytes;

enum ByteState : uint8_t {
  kAllocated = 1,
  kWritten = 2,
  kOfHost = 4,  // page-locked: the host writes it unseen; unwritten as long as it holds the pattern of poison_byte()
};

inline bool in_space(uint64_t address, uint64_t bytes) {
  return address >= kSpaceBegin && address + bytes <= kSpaceEnd && address + bytes >= address;
}
// Valid for addresses in the range. The first call reserves the memory.
uint8_t* states();
inline uint8_t* state_of(uint64_t address) { return states() + (address - kSpaceBegin); }
// What page-locked memory holds until it is written: NaN in every type, and another one at every address.
uint8_t poison_byte(uint64_t address);

// Makes the bytes a tensor's, unwritten, or nobody's.
void mark_allocated(const void* data, size_t bytes, uint8_t state);
void mark_released(const void* data, size_t bytes);
void mark_written(const void* data, size_t bytes);

// What is wrong with reading (or writing) these bytes, as a sentence; empty if nothing is.
std::string why_not_read(uint64_t address, size_t bytes);
std::string why_not_written(uint64_t address, size_t bytes);
// The same as a fault of `what`, said when the work is done.
void expect_readable(const void* data, size_t bytes, const std::string& what);
void expect_writable(const void* data, size_t bytes, const std::string& what);

}  // namespace gradmill::paper
