// SPDX-License-Identifier: Apache-2.0
// Scattered rows on the CPU.
#include <algorithm>

#include "cpu/reduce.h"
#include "ops/scatter_rows.h"

namespace gradmill {

template <Device D, class T>
void scatter_rows(ExecContext& ctx, const ScatterRowsArgs& args) {
  const int32_t* indices = args.indices.ptr<int32_t>();
  const int64_t cols = args.from.cols();
  cpu::parallel_for(*ctx.pool, args.from.rows(), cpu::rows_per_task(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      assert(indices[r] >= 0 && indices[r] < args.to.rows());
      std::copy_n(args.from.row<T>(r), cols, args.to.row<T>(indices[r]));
    }
  });
}

template void scatter_rows<Device::cpu, float>(ExecContext&, const ScatterRowsArgs&);
template void scatter_rows<Device::cpu, Bf16>(ExecContext&, const ScatterRowsArgs&);
template void scatter_rows<Device::cpu, Fp16>(ExecContext&, const ScatterRowsArgs&);

}  // namespace gradmill
