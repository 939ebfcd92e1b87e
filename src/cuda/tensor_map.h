// SPDX-License-Identifier: Apache-2.0
// Tensor maps, which describe the tiles of a matrix to Hopper's copy engine.
#pragma once

#include <cuda.h>

#include "core/tensor_view.h"

namespace gradmill::cuda {

// Describes tiles of `rows` rows and `columns` columns of a 16-bit matrix, whose rows may be strided. In shared memory,
// tiles of 64 and 32 columns have the layout of cuda/wgmma.cuh; other tiles are stored row after row. The address of
// the view and its row stride must be multiples of 16 bytes.
CUtensorMap map_tiles(const TensorView& view, int rows, int columns = 64);

}  // namespace gradmill::cuda
