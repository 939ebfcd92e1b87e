// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions that query the GPU and allocate its memory.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "paper_gpu/memory.h"
#include "paper_gpu/model/launch_time.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/ptx/tensor_map.h"
#include "paper_gpu/status.h"
#include "paper_gpu/streams.h"

namespace gradmill::paper {
namespace {

constexpr Kind kOldGpu = {"p400", "Quadro P400", 61, 2, 2048, 48, 1252, 2005, 64};

thread_local cudaError_t last_error = cudaSuccess;
thread_local int chosen = 0;

const Kind& kind_of(int device) { return device == gpu_index() ? gpu() : kOldGpu; }

cudaError_t allocate(Memory& memory, void** pointer, size_t bytes) {
  *pointer = memory.allocate(bytes);
  return remember(*pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

// Waits for all work that may still use the memory.
cudaError_t release(Memory& memory, void* pointer) {
  finish_all();
  if (pointer == nullptr || memory.free(pointer)) return cudaSuccess;
  return refuse(fmt::format("{} is freed, but was never allocated", pointer));
}

int attribute(cudaDeviceAttr which, const Kind& kind) {
  constexpr int kKilohertz = 1000;
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor:
      return kind.compute_capability / 10;
    case cudaDevAttrComputeCapabilityMinor:
      return kind.compute_capability % 10;
    case cudaDevAttrMultiProcessorCount:
      return kind.num_units;
    case cudaDevAttrClockRate:
      return kind.clock_mhz * kKilohertz;
    case cudaDevAttrMemoryClockRate:
      return kind.memory_clock_mhz * kKilohertz;
    case cudaDevAttrGlobalMemoryBusWidth:
      return kind.bus_bits;
    case cudaDevAttrL2CacheSize:
      return 4 << 20;
    default:
      fault(fmt::format("attribute {} of the GPU is not on paper", int(which)));
      return 0;
  }
}

// The number of bytes of a row within which chunks are permuted, or 0.
uint32_t swizzled_bytes(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_128B:
      return 128;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    default:
      return 0;
  }
}

// The rules from the driver's documentation of tensor maps, for two dimensions without interleaving.
std::string why_no_map(CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* sizes,
                       const cuuint64_t* strides, const cuuint32_t* box, CUtensorMapSwizzle swizzle) {
  if (gpu().compute_capability < 90) return "needs compute capability 9.0";
  if (rank != 2 || (type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 && type != CU_TENSOR_MAP_DATA_TYPE_FLOAT16)) {
    return "is of a kind that is not on paper";
  }
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) return "begins at an address that 16 does not divide";
  if (strides[0] % 16 != 0) return "has rows at distances that 16 does not divide";
  if (sizes[0] == 0 || sizes[1] == 0) return "is empty";
  if (box[0] == 0 || box[0] > 256 || box[1] == 0 || box[1] > 256) return "has a box of more than 256";
  const size_t width = box[0] * sizeof(uint16_t);
  const size_t most = swizzled_bytes(swizzle);
  if (width % 16 != 0 || (most != 0 && width > most)) return "has a box whose rows the swizzle does not hold";
  expect_inside(address, (sizes[1] - 1) * strides[0] + sizes[0] * sizeof(uint16_t), Where::device_or_host,
                "a tensor map");
  return {};
}

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                      const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t*,
                      CUtensorMapInterleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                      CUtensorMapFloatOOBfill) {
  std::memset(map, 0, sizeof(*map));
  const std::string reason = why_no_map(type, rank, address, sizes, strides, box, swizzle);
  if (reason.empty()) {
    const ptx::TensorMap made{ptx::TensorMap::kMagic, reinterpret_cast<uint64_t>(address),
                              {sizes[0], sizes[1]},   strides[0],
                              {box[0], box[1]},       sizeof(uint16_t),
                              swizzled_bytes(swizzle)};
    std::memcpy(map, &made, sizeof(made));
    return CUDA_SUCCESS;
  }
  fault("a tensor map " + reason);
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

void expect_chosen(std::string_view what) {
  if (chosen != gpu_index()) fault(fmt::format("{} for GPU {}, which is not the one of the run", what, chosen));
}

cudaError_t remember(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

cudaError_t refuse(const std::string& what, cudaError_t status) {
  fault(what);
  return remember(status);
}

}  // namespace gradmill::paper

using namespace gradmill::paper;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t status) {
  if (status == cudaErrorMemoryAllocation) return "out of memory";
  return status == cudaErrorLaunchFailure ? "unspecified launch failure" : "the paper GPU refuses";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpu_index() + 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = chosen;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device > gpu_index()) return refuse("there is no such GPU", cudaErrorInvalidDevice);
  chosen = device;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaDeviceGetPCIBusId(char*, int, int) { return remember(cudaErrorNotSupported); }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  *value = attribute(which, kind_of(device));
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Kind& kind = kind_of(device);
  *properties = {};
  // The title says so, so that nobody takes modelled times for real ones.
  const std::string title = std::string(kind.title) + (model::models_time() ? " on paper (times are modelled)" : "");
  title.copy(properties->name, sizeof(properties->name) - 1);
  properties->major = kind.compute_capability / 10;
  properties->minor = kind.compute_capability % 10;
  properties->multiProcessorCount = kind.num_units;
  properties->totalGlobalMem = kind.memory_mib << 20;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  expect_chosen("memory is taken");
  return allocate(Memory::device(), pointer, bytes);
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return allocate(Memory::host(), pointer, bytes); }
cudaError_t cudaFree(void* pointer) { return release(Memory::device(), pointer); }
cudaError_t cudaFreeHost(void* pointer) { return release(Memory::host(), pointer); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const bool ours = chosen == gpu_index();
  *total = kind_of(chosen).memory_mib << 20;
  *free = ours ? Memory::device().limit() - Memory::device().used() : *total;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool known = std::string_view(name) == "cuTensorMapEncodeTiled";
  *function = known ? reinterpret_cast<void*>(&encode_tiled) : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
