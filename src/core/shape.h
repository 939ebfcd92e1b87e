// SPDX-License-Identifier: Apache-2.0
// Shape: up to four dimensions, by value.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace gradmill {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    assert(dims.size() <= kMaxRank);
    for (int64_t dim : dims) dims_[static_cast<size_t>(rank_++)] = dim;
  }

  int rank() const { return rank_; }
  int64_t operator[](int axis) const {
    assert(axis >= 0 && axis < rank_);
    return dims_[static_cast<size_t>(axis)];
  }
  int64_t numel() const {
    int64_t count = 1;
    for (int axis = 0; axis < rank_; ++axis) count *= (*this)[axis];
    return count;
  }
  bool operator==(const Shape&) const = default;
  std::string str() const {
    std::string text = "(";
    for (int axis = 0; axis < rank_; ++axis) text += (axis ? ", " : "") + std::to_string((*this)[axis]);
    return text + ")";
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace gradmill
