// SPDX-License-Identifier: Apache-2.0
// Arena: a stack allocator over memory it does not own. During a dry run it has no memory and no limit; it records who
// owned the bytes at the high-water mark.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/storage.h"
#include "core/tensor_view.h"

namespace gradmill {

struct OwnerBytes {
  std::string owner;
  size_t bytes;
};

class Arena {
 public:
  explicit Arena(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  bool on_paper() const { return on_paper_; }

  // Ends the dry run: allocations are taken from `memory` from now on. The arena starts empty.
  void attach(std::span<std::byte> memory);
  // Fills every new allocation with NaN bytes, so that tests notice reads of uninitialised memory. Null turns it off.
  using Poison = void (*)(std::byte* begin, size_t bytes);
  void set_poison(Poison poison) { poison_ = poison; }

  // `owner` is called during a dry run only.
  template <class OwnerFn>
  TensorView alloc(const Shape& shape, DType dtype, OwnerFn&& owner) {
    TensorView view(take(static_cast<size_t>(shape.numel()) * size_of(dtype)), dtype, shape);
    if (on_paper_) live_.push_back({owner(), used_ - last_begin_});
    return view;
  }

  // Whether the view is a real tensor that begins in this arena's memory.
  bool holds(const TensorView& view) const {
    const auto* begin = static_cast<const std::byte*>(view.data);
    return !on_paper_ && begin >= memory_.data() && begin < memory_.data() + memory_.size();
  }

  size_t used() const { return used_; }
  size_t high_water() const { return high_water_; }

  struct Mark {
    size_t used;
    size_t live;
  };
  Mark mark() const { return {used_, live_.size()}; }
  void release(const Mark& mark);

  // The owners of the bytes at the high-water mark, in order of allocation. Known after a dry run only.
  std::vector<OwnerBytes> owners_at_peak();

 private:
  void* take(size_t bytes);
  void snapshot_peak();

  std::string name_;
  std::span<std::byte> memory_;
  bool on_paper_ = true;
  Poison poison_ = nullptr;
  size_t used_ = 0;
  size_t last_begin_ = 0;
  size_t high_water_ = 0;
  size_t snapshot_at_ = 0;
  std::vector<OwnerBytes> live_;
  std::vector<OwnerBytes> peak_;
};

// A poison function for arenas in host memory.
void poison_host(std::byte* begin, size_t bytes);

// On destruction, frees everything allocated from the arena during its lifetime.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace gradmill
