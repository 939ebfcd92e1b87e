// SPDX-License-Identifier: Apache-2.0
// A classifier's loss on a GPU: one warp per sequence; each lane takes every 32nd label.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/label_loss.h"

namespace gradmill {
namespace {

constexpr int kThreads = 128, kSeqsPerBlock = kThreads / cuda::kWarpSize;

struct Problem {
  float* logits;
  const int32_t* classes;  // null: a single label, with targets in `values`
  const float* values;
  const int32_t* cu;
  const float* class_weights;  // may be null
  float* losses;
  int64_t stride, seqs;
  int labels;
  bool write_grad;
  const StepScalars* scalars;
};

__global__ void __launch_bounds__(kThreads) label_loss_kernel(const Problem args) {
  const int64_t s = int64_t{blockIdx.x} * kSeqsPerBlock + threadIdx.x / cuda::kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  if (s >= args.seqs) return;
  float* logits = args.logits + s * args.stride;
  const float scale = args.scalars->inv_targets * args.scalars->loss_scale;
  const bool empty = args.cu[s] == args.cu[s + 1];
  if (empty || (args.classes != nullptr && args.classes[s] == kIgnoredTarget)) {
    if (lane == 0) args.losses[s] = 0;
    if (args.write_grad) {
      for (int i = lane; i < args.labels; i += cuda::kWarpSize) logits[i] = 0;
    }
    return;
  }
  if (args.classes == nullptr) {
    if (lane != 0) return;
    const float error = logits[0] - args.values[s];
    args.losses[s] = error * error;
    if (args.write_grad) logits[0] = 2 * error * scale;
    return;
  }
  const int target = args.classes[s];
  const float chosen = logits[target], weight = args.class_weights != nullptr ? args.class_weights[target] : 1.0f;
  float max = -INFINITY, sum = 0;
  for (int i = lane; i < args.labels; i += cuda::kWarpSize) max = fmaxf(max, logits[i]);
  max = cuda::warp_reduce(max, cuda::Max{});
  for (int i = lane; i < args.labels; i += cuda::kWarpSize) sum += expf(logits[i] - max);
  sum = cuda::warp_reduce(sum, cuda::Sum{});
  if (lane == 0) args.losses[s] = weight * (logf(sum) + (max - chosen));
  if (!args.write_grad) return;
  const float factor = scale * weight / sum;
  // Every lane has read the target's logit before its owner overwrites it, because the reductions above wait for all
  // lanes.
  for (int i = lane; i < args.labels; i += cuda::kWarpSize) {
    const float share = expf(logits[i] - max);
    logits[i] = i == target ? (share / sum - 1) * scale * weight : share * factor;
  }
}

}  // namespace

template <Device D, class T>
void label_loss(ExecContext& ctx, const LabelLossArgs& args) {
  const bool regression = args.logits.cols() == 1;
  const Problem problem{
      .logits = args.logits.ptr<float>(),
      .classes = regression ? nullptr : args.targets.ptr<int32_t>(),
      .values = regression ? args.targets.ptr<float>() : nullptr,
      .cu = args.cu.ptr<int32_t>(),
      .class_weights = args.class_weights.defined() ? args.class_weights.ptr<float>() : nullptr,
      .losses = args.losses.ptr<float>(),
      .stride = args.logits.row_stride,
      .seqs = args.logits.rows(),
      .labels = static_cast<int>(args.logits.cols()),
      .write_grad = args.write_grad,
      .scalars = ctx.scalars,
  };
  if (problem.seqs == 0) return;
  const auto blocks = static_cast<unsigned>((problem.seqs + kSeqsPerBlock - 1) / kSeqsPerBlock);
  cuda::launch({blocks, kThreads, cuda::stream_of(ctx)}, label_loss_kernel, problem);
}

template void label_loss<Device::cuda, float>(ExecContext&, const LabelLossArgs&);

}  // namespace gradmill
