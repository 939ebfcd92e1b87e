// SPDX-License-Identifier: Apache-2.0
// Tensor maps: how Hopper's copy engine finds tiles of a matrix.
#pragma once

#include <cuda.h>

#include "core/tensor_view.h"

namespace gradmill::cuda {

// Tiles of `rows` rows and 64 columns of a 16-bit matrix (rows may be strided), as cuda/hopper.cuh lays them out in
// shared memory. The view's data and rows must lie at multiples of 16 bytes.
CUtensorMap map_tiles(const TensorView& view, int rows);

}  // namespace gradmill::cuda
