// SPDX-License-Identifier: Apache-2.0
// Renderer::Depth: limits the recursion of the renderer, which uses the thread's stack.
#pragma once

#include <fmt/format.h>

#include "data/chat/jinja/renderer.h"

namespace gradmill::jinja {

class Renderer::Depth {
 public:
  explicit Depth(Renderer& renderer) : depth_(renderer.depth_) {
    const int limit = renderer.work_.limits().max_call_depth;
    if (depth_ >= limit) throw Fault(fmt::format("blocks, expressions and calls nested deeper than {}", limit));
    ++depth_;
  }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
};

}  // namespace gradmill::jinja
