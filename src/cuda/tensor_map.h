// SPDX-License-Identifier: Apache-2.0
// Tensor maps: how Hopper's copy engine finds tiles of a matrix.
#pragma once

#include <cuda.h>

#include "core/tensor_view.h"

namespace gradmill::cuda {

// Tiles of `rows` rows and `columns` columns of a 16-bit matrix (rows may be strided). In shared memory 64 and 32
// columns lie as cuda/wgmma.cuh has them, others one after the other. The view's data and rows must lie at multiples of
// 16 bytes.
CUtensorMap map_tiles(const TensorView& view, int rows, int columns = 64);

}  // namespace gradmill::cuda
