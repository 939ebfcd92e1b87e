// SPDX-License-Identifier: Apache-2.0
#include "core/arena.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "core/error.h"

namespace gradmill {

void Arena::attach(std::span<std::byte> memory) {
  memory_ = memory;
  on_paper_ = false;
  used_ = high_water_ = snapshot_at_ = 0;
  live_.clear();
  peak_.clear();
}

void* Arena::take(size_t bytes) {
  last_begin_ = used_;
  used_ += align_up(bytes);
  high_water_ = std::max(high_water_, used_);
  if (on_paper_) return nullptr;
  // The plan runs the same code, so this can only be a bug.
  if (used_ > memory_.size()) {
    throw Error(ExitCode::failure,
                fmt::format("arena '{}' needs {} bytes but was planned with {}", name_, used_, memory_.size()),
                "this is a bug in the memory plan: please report it with the command you ran");
  }
  std::byte* begin = memory_.data() + last_begin_;
  if (poison_) poison_(begin, used_ - last_begin_);
  return begin;
}

void poison_host(std::byte* begin, size_t bytes) { std::memset(begin, 0xff, bytes); }

void Arena::release(const Mark& mark) {
  assert(mark.used <= used_);
  if (on_paper_) {
    snapshot_peak();
    live_.resize(mark.live);
  }
  used_ = mark.used;
}

void Arena::snapshot_peak() {
  if (used_ != high_water_ || snapshot_at_ == high_water_) return;
  peak_ = live_;
  snapshot_at_ = high_water_;
}

std::vector<OwnerBytes> Arena::owners_at_peak() {
  snapshot_peak();
  return peak_;
}

}  // namespace gradmill
