// SPDX-License-Identifier: Apache-2.0
#include "cuda/tensor_map.h"

#include <cuda_runtime.h>
#include <cudaTypedefs.h>

#include "core/error.h"
#include "cuda/check.h"

namespace gradmill::cuda {
namespace {

// The driver's function, found at run time, because the binary must start without a driver.
PFN_cuTensorMapEncodeTiled_v12000 find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
        "looking up cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess) {
    throw Error(ExitCode::failure, "the driver has no tensor maps", "update the NVIDIA driver");
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

}  // namespace

CUtensorMap map_tiles(const TensorView& view, int rows, int columns) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encoder();
  const auto swizzle = columns == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                       : columns == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                       : CU_TENSOR_MAP_SWIZZLE_NONE;
  const auto type = view.dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(view.cols()), static_cast<cuuint64_t>(view.rows())};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(view.row_stride) * size_of(view.dtype)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(columns), static_cast<cuuint32_t>(rows)}, steps[] = {1, 1};
  CUtensorMap map;
  const CUresult result = encode(&map, type, 2, view.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error(ExitCode::failure,
                fmt::format("the driver refused a tensor map of {} x {} elements (error {})", view.rows(), view.cols(),
                            static_cast<int>(result)),
                "update the NVIDIA driver");
  }
  return map;
}

}  // namespace gradmill::cuda
