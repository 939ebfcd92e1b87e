// SPDX-License-Identifier: Apache-2.0
// DoRA's gains on the CPU. Cheap: r² operations per row, once per step.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "cpu/reduce.h"
#include "cpu/thread_pool.h"
#include "ops/dora_gain.h"

namespace gradmill {
namespace {

template <class T>
float row_norm(const DoraGainArgs& args, int64_t row) {
  const int64_t rank = args.b.cols();
  const T* b = args.b.row<T>(row);
  const float* product = args.product.row<float>(row);
  float cross = 0, square = 0;
  for (int64_t j = 0; j < rank; ++j) {
    const float* gram = args.gram.row<float>(j);
    float sum = 0;
    for (int64_t k = 0; k < rank; ++k) sum += gram[k] * float(b[k]);
    cross += product[j] * float(b[j]);
    square += sum * float(b[j]);
  }
  const float total = args.base_norms.ptr<float>()[row] + 2 * args.scale * cross + args.scale * args.scale * square;
  // A row of zeros has no direction. Rounding may even make the sum negative.
  return std::sqrt(std::max(total, FLT_MIN));
}

}  // namespace

template <Device D, class T>
void dora_gain(ExecContext& ctx, const DoraGainArgs& args) {
  const int64_t rank = args.b.cols();
  cpu::parallel_for(*ctx.pool, args.b.rows(), cpu::rows_per_task(rank * rank), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float norm = row_norm<T>(args, row);
      args.gain.ptr<float>()[row] = args.magnitude.defined() ? args.magnitude.ptr<float>()[row] / norm : norm;
    }
  });
}

template void dora_gain<Device::cpu, float>(ExecContext&, const DoraGainArgs&);
template void dora_gain<Device::cpu, Bf16>(ExecContext&, const DoraGainArgs&);
template void dora_gain<Device::cpu, Fp16>(ExecContext&, const DoraGainArgs&);

}  // namespace gradmill
