// SPDX-License-Identifier: Apache-2.0
// Tells the paper GPU where tensors begin and end. Linked into test programs, where the linker substitutes these
// functions for the arenas' own (--wrap); the library knows nothing about it.
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "core/arena.h"
#include "paper_gpu/memory.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/shadow.h"
#include "paper_gpu/streams.h"

namespace gradmill::paper {
namespace {

// The memory of the arenas on the paper GPU.
std::map<const Arena*, std::span<std::byte>>& memory_of_arenas() {
  static std::map<const Arena*, std::span<std::byte>> all;
  return all;
}

// A gap between tensors, so that an access past the end of one does not hit the next. Dry runs have the gaps as well,
// because plans must agree with runs. PAPER_GAPS=off is for tests that check the size of a plan.
size_t gap() {
  static const bool off = [] {
    const char* const text = std::getenv("PAPER_GAPS");
    return text != nullptr && std::string_view(text) == "off";
  }();
  return off || !computes() ? 0 : kAlignment;
}

bool is_ours(const void* data) { return in_space(reinterpret_cast<uint64_t>(data), 1); }

// Reports tensors in the order of the most recently launched kernels. Tensors in another allocation belong to another
// session, whose kernels have their own order.
void follow_session(const void* data) {
  static const void* last = nullptr;
  const void* const block = Memory::device().block_of(data);
  if (block == nullptr || block == last) return;
  last = block;
  end_order();
}

void release_later(std::byte* begin, size_t bytes) {
  if (bytes == 0) return;
  follow_session(begin);
  enqueue_in_order([=] {
    if (Memory::device().contains(begin, bytes) || Memory::host().contains(begin, bytes)) mark_released(begin, bytes);
  });
}

void attached(const Arena* arena, std::span<std::byte> memory) {
  if (memory.empty() || !is_ours(memory.data())) {
    memory_of_arenas().erase(arena);
    return;
  }
  memory_of_arenas()[arena] = memory;
  release_later(memory.data(), memory.size());
}

// A tensor in page-locked memory counts as written unless it was poisoned, because the host may write it unnoticed.
bool poisoned_just_now = false;
void taken(std::byte* begin, size_t bytes) {
  if (begin == nullptr || !is_ours(begin)) return;
  const bool of_host = Memory::host().holds(begin);
  const auto state = static_cast<uint8_t>(!of_host            ? kAllocated
                                          : poisoned_just_now ? kAllocated | kOfHost
                                                              : kAllocated | kOfHost | kWritten);
  poisoned_just_now = false;
  follow_session(begin);
  enqueue_in_order([=] { mark_allocated(begin, bytes, state); });
}

void poison_in_place(std::byte* begin, size_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(begin);
  for (size_t i = 0; i < bytes; ++i) begin[i] = std::byte{poison_byte(address + i)};
  poisoned_just_now = true;
}

}  // namespace
}  // namespace gradmill::paper

extern "C" {

// The mangled names of Arena::attach, take and release, and of poison_host.
void __real__ZN8gradmill5Arena6attachESt4spanISt4byteLm18446744073709551615EE(gradmill::Arena*, std::span<std::byte>);
void __wrap__ZN8gradmill5Arena6attachESt4spanISt4byteLm18446744073709551615EE(gradmill::Arena* arena,
                                                                              std::span<std::byte> memory) {
  __real__ZN8gradmill5Arena6attachESt4spanISt4byteLm18446744073709551615EE(arena, memory);
  gradmill::paper::attached(arena, memory);
}

void* __real__ZN8gradmill5Arena4takeEm(gradmill::Arena*, size_t);
void* __wrap__ZN8gradmill5Arena4takeEm(gradmill::Arena* arena, size_t bytes) {
  void* const begin = __real__ZN8gradmill5Arena4takeEm(arena, bytes + gradmill::paper::gap());
  gradmill::paper::taken(static_cast<std::byte*>(begin), bytes);
  return begin;
}

void __real__ZN8gradmill5Arena7releaseERKNS0_4MarkE(gradmill::Arena*, const gradmill::Arena::Mark&);
void __wrap__ZN8gradmill5Arena7releaseERKNS0_4MarkE(gradmill::Arena* arena, const gradmill::Arena::Mark& mark) {
  const size_t used = arena->used();
  __real__ZN8gradmill5Arena7releaseERKNS0_4MarkE(arena, mark);
  const auto found = gradmill::paper::memory_of_arenas().find(arena);
  if (found == gradmill::paper::memory_of_arenas().end()) return;
  gradmill::paper::release_later(found->second.data() + mark.used, used - mark.used);
}

void __real__ZN8gradmill11poison_hostEPSt4bytem(std::byte*, size_t);
void __wrap__ZN8gradmill11poison_hostEPSt4bytem(std::byte* begin, size_t bytes) {
  if (gradmill::paper::is_ours(begin)) {
    gradmill::paper::poison_in_place(begin, bytes);
  } else {
    __real__ZN8gradmill11poison_hostEPSt4bytem(begin, bytes);
  }
}

}  // extern "C"
