// SPDX-License-Identifier: Apache-2.0
// The state of each byte of the paper GPU's memory: whether it belongs to a tensor, and whether it has been written.
// All of this memory is in one range of addresses, so that the state is found by arithmetic.
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
  kOfHost = 4,  // page-locked: the host writes it unnoticed; it counts as unwritten while it contains the pattern of
                // poison_byte()
};

inline bool in_space(uint64_t address, uint64_t bytes) {
  return address >= kSpaceBegin && address + bytes <= kSpaceEnd && address + bytes >= address;
}
// Valid for addresses in the range. The first call reserves the memory.
uint8_t* states();
inline uint8_t* state_of(uint64_t address) { return states() + (address - kSpaceBegin); }
// The contents of page-locked memory until it is written: NaN in every type, different at every address.
uint8_t poison_byte(uint64_t address);

// Marks the bytes as belonging to an unwritten tensor, or to none.
void mark_allocated(const void* data, size_t bytes, uint8_t state);
void mark_released(const void* data, size_t bytes);
void mark_written(const void* data, size_t bytes);

// What is wrong with reading (or writing) these bytes, as a sentence; empty if nothing is.
std::string why_not_read(uint64_t address, size_t bytes);
std::string why_not_written(uint64_t address, size_t bytes);
// The same as a fault of `what`, reported when the work is done.
void expect_readable(const void* data, size_t bytes, const std::string& what);
void expect_writable(const void* data, size_t bytes, const std::string& what);

}  // namespace gradmill::paper
