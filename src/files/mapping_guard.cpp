// SPDX-License-Identifier: Apache-2.0
#include "files/mapping_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <utility>

namespace gradmill {
namespace {

// A signal handler has no argument for what it needs, so this is the process's.
std::atomic<MappingGuard::Range*> ranges{nullptr};
std::atomic<size_t> page_size{0};
struct sigaction previous_action {};

// The range that holds the address. It is in use, so no other thread changes it meanwhile.
MappingGuard::Range* find_range(const std::byte* address) {
  for (MappingGuard::Range* range = ranges.load(); range != nullptr; range = range->next) {
    const std::byte *begin = range->begin.load(), *end = range->end.load();
    if (begin != nullptr && begin <= address && address < end && range->begin.load() == begin) return range;
  }
  return nullptr;
}

// Only system calls that may be made in a signal handler.
void on_bus_error(int, siginfo_t* info, void*) {
  const int error = errno;
  auto* address = static_cast<std::byte*>(info->si_addr);
  MappingGuard::Range* range = find_range(address);
  bool replaced = false;
  if (range != nullptr) {
    std::byte* page = address - reinterpret_cast<uintptr_t>(address) % page_size.load();
    const auto size = static_cast<size_t>(range->end.load() - page);
    range->lost.store(true);  // before any thread can read a zero
    replaced = ::mmap(page, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  // The read is repeated, and then the earlier handler gets the signal.
  if (!replaced) ::sigaction(SIGBUS, &previous_action, nullptr);
  errno = error;
}

void install_handler() {
  page_size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &previous_action);
}

std::mutex& range_mutex() {
  static std::mutex mutex;
  return mutex;
}

MappingGuard::Range& free_range() {
  for (MappingGuard::Range* range = ranges.load(); range != nullptr; range = range->next) {
    if (range->begin.load() == nullptr) return *range;
  }
  auto* range = new MappingGuard::Range;
  range->next = ranges.load();
  ranges.store(range);
  return *range;
}

}  // namespace

MappingGuard::MappingGuard(std::span<const std::byte> mapping) {
  if (mapping.empty()) return;
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  const size_t page = page_size.load(), size = (mapping.size() + page - 1) / page * page;
  auto* begin = const_cast<std::byte*>(mapping.data());
  const std::lock_guard lock(range_mutex());
  range_ = &free_range();
  range_->lost.store(false);
  range_->end.store(begin + size);
  range_->begin.store(begin);
}

MappingGuard::MappingGuard(MappingGuard&& other) noexcept : range_(std::exchange(other.range_, nullptr)) {}

MappingGuard& MappingGuard::operator=(MappingGuard&& other) noexcept {
  std::swap(range_, other.range_);
  return *this;
}

MappingGuard::~MappingGuard() {
  if (range_ == nullptr) return;
  const std::lock_guard lock(range_mutex());
  range_->begin.store(nullptr);
}

}  // namespace gradmill
