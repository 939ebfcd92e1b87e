// SPDX-License-Identifier: Apache-2.0
// Sums of chunks on CUDA: the blocks of a launch share up to 48 of them.
#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "ops/partial_sums.h"

namespace gradmill {
namespace {

using cuda::kWarpSize;

struct Job {
  const float* partials;
  float* out;
  int count, size;
  float beta;
  int first_block;
};

constexpr int kMostJobs = 48;
struct Jobs {
  Job job[kMostJobs];
  int count = 0, blocks = 0;

  bool writes(const float* out) const {
    return std::any_of(job, job + count, [&](const Job& other) { return other.out == out; });
  }
};
static_assert(sizeof(Jobs) <= 4096);  // the limit for launch parameters on all GPUs

// A block has 32 columns. Each of its warps adds every 32nd row of partials, one line at a time. Then each warp adds
// the sums of all warps for one column.
__global__ void __launch_bounds__(1024) add_partials_kernel(const __grid_constant__ Jobs jobs) {
  __shared__ float sums[kWarpSize][kWarpSize + 1];
  int index = 0;
  while (index + 1 < jobs.count && jobs.job[index + 1].first_block <= int(blockIdx.x)) ++index;
  const Job& job = jobs.job[index];
  const int lane = int(threadIdx.x), warp = int(threadIdx.y), begin = (int(blockIdx.x) - job.first_block) * kWarpSize;
  float sum = 0;
  if (begin + lane < job.size) {
#pragma unroll 4
    for (int part = warp; part < job.count; part += kWarpSize) {
      sum += job.partials[int64_t{part} * job.size + begin + lane];
    }
  }
  sums[warp][lane] = sum;
  __syncthreads();
  const float total = cuda::warp_reduce(sums[lane][warp], cuda::Sum{});
  const int column = begin + warp;
  if (lane == 0 && column < job.size) {
    job.out[column] = job.beta == 0 ? total : total + job.beta * job.out[column];
  }
}

void run(const ExecContext& ctx, Jobs& jobs) {
  if (jobs.blocks > 0) {
    cuda::launch({dim3(unsigned(jobs.blocks)), dim3(kWarpSize, kWarpSize), cuda::stream_of(ctx)}, add_partials_kernel,
                 jobs);
  }
  jobs = {};
}

}  // namespace

template <>
void add_partial_sums<Device::cuda>(ExecContext& ctx, std::span<const PartialSum> sums) {
  Jobs jobs{};
  for (const auto& [partials, out, beta] : sums) {
    if (!out.defined() || out.numel() == 0) continue;
    // Sums within one launch have no order.
    if (jobs.count == kMostJobs || jobs.writes(out.ptr<float>())) run(ctx, jobs);
    jobs.job[jobs.count++] = {.partials = partials.ptr<float>(),
                              .out = out.ptr<float>(),
                              .count = int(partials.rows()),
                              .size = int(partials.cols()),
                              .beta = beta,
                              .first_block = jobs.blocks};
    jobs.blocks += int((partials.cols() + kWarpSize - 1) / kWarpSize);
  }
  run(ctx, jobs);
}

}  // namespace gradmill
