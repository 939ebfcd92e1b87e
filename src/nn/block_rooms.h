// SPDX-License-Identifier: Apache-2.0
// Rooms: memory for activations of a block that no slot keeps, shared by blocks. Where backward kernels write them
// again (see SavePolicy), products that wait read them there, so a few blocks have rooms of their own. These belong to
// the last ones, whose backwards come first and find all as the forward left it; the others share them.
#pragma once

#include <vector>

#include "core/tensor_view.h"

namespace gradmill {

struct Room {
  TensorView view;     // undefined: a slot
  bool stays = false;  // what the block's forward writes there
};

struct BlockRooms {
  Room n1, n2;  // (N, C)
  Room hidden;  // (N, F); a product that reads it may be left to the next block's norm
};

// Of one kind, like blocks in the order of memory.
struct RoomsOfKind {
  std::vector<TensorView> views;
  bool keeps = false;  // for the backward

  Room of(size_t blocks_behind) const {
    if (views.empty()) return {};
    return {views[views.size() - 1 - blocks_behind % views.size()], keeps && blocks_behind < views.size()};
  }
};

struct RoomsOfBlocks {
  RoomsOfKind n1, n2, hidden;

  // Of the block that has so many behind it.
  BlockRooms of(size_t blocks_behind) const {
    return {n1.of(blocks_behind), n2.of(blocks_behind), hidden.of(blocks_behind)};
  }
};

}  // namespace gradmill
