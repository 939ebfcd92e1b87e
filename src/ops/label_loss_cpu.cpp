// SPDX-License-Identifier: Apache-2.0
// A classifier's loss on the CPU: a few numbers per sequence.
#include <algorithm>
#include <cmath>

#include "cpu/reduce.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/label_loss.h"

namespace gradmill {
namespace {

float squared_error(float* logit, float target, float scale, bool write_grad) {
  const float error = *logit - target;
  if (write_grad) *logit = 2 * error * scale;
  return error * error;
}

float class_loss(float* logits, int64_t labels, int32_t target, float weight, float scale, bool write_grad) {
  const float max = *std::max_element(logits, logits + labels), chosen = logits[target];
  float sum = 0;
  for (int64_t i = 0; i < labels; ++i) sum += std::exp(logits[i] - max);
  if (write_grad) {
    const float factor = scale * weight / sum;
    for (int64_t i = 0; i < labels; ++i) logits[i] = std::exp(logits[i] - max) * factor;
    logits[target] = (std::exp(chosen - max) / sum - 1) * scale * weight;
  }
  return weight * (std::log(sum) + (max - chosen));
}

}  // namespace

template <Device D, class T>
void label_loss(ExecContext& ctx, const LabelLossArgs& args) {
  const float scale = ctx.scalars->inv_targets * ctx.scalars->loss_scale;
  const int64_t labels = args.logits.cols();
  const int32_t* cu = args.cu.ptr<int32_t>();
  cpu::parallel_for(*ctx.pool, args.logits.rows(), cpu::rows_per_task(labels), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      float* logits = args.logits.row<float>(s);
      float& loss = args.losses.ptr<float>()[s];
      const bool empty = cu[s] == cu[s + 1];
      if (empty || (labels > 1 && args.targets.ptr<int32_t>()[s] == kIgnoredTarget)) {
        loss = 0;
        if (args.write_grad) std::fill_n(logits, labels, 0.0f);
      } else if (labels == 1) {
        loss = squared_error(logits, args.targets.ptr<float>()[s], scale, args.write_grad);
      } else {
        const int32_t target = args.targets.ptr<int32_t>()[s];
        assert(target >= 0 && target < labels);
        const float weight = args.class_weights.defined() ? args.class_weights.ptr<float>()[target] : 1.0f;
        loss = class_loss(logits, labels, target, weight, scale, args.write_grad);
      }
    }
  });
}

template void label_loss<Device::cpu, float>(ExecContext&, const LabelLossArgs&);

}  // namespace gradmill
