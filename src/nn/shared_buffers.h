// SPDX-License-Identifier: Apache-2.0
// Shared buffers: memory for activations that no slot keeps, shared by the blocks of a pass. Where backward kernels
// write activations again (see SavePolicy), deferred products read them from there, so a few blocks have buffers of
// their own. The last blocks begin with them: their backwards come first and find everything as the forward left it.
#pragma once

#include <vector>

#include "core/tensor_view.h"

namespace gradmill {

struct SharedBuffer {
  TensorView view;     // undefined: a slot is used
  bool stays = false;  // what the block's forward writes there stays until its backward
};

struct BlockBuffers {
  SharedBuffer n1, n2;  // (N, C)
  SharedBuffer hidden;  // (N, F); the next block's norm may run a product that reads it
};

// Buffers for one activation, in the order of memory. Blocks take them in turn.
struct BufferRing {
  std::vector<TensorView> views;
  bool keeps = false;  // the last blocks' forwards write for their backwards

  SharedBuffer of(size_t blocks_after) const {
    if (views.empty()) return {};
    return {views[views.size() - 1 - blocks_after % views.size()], keeps && blocks_after < views.size()};
  }
};

struct SharedBuffers {
  BufferRing n1, n2, hidden;

  // The buffers of the block that is followed by `blocks_after` others.
  BlockBuffers of(size_t blocks_after) const {
    return {n1.of(blocks_after), n2.of(blocks_after), hidden.of(blocks_after)};
  }
};

}  // namespace gradmill
