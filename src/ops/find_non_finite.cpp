// SPDX-License-Identifier: Apache-2.0
#include "ops/find_non_finite.h"

namespace gradmill {

void find_non_finite(ExecContext& ctx, const TensorView& x, const TensorView& row) {
  assert(x.shape.rank() == 2 && row.numel() == 1 && row.dtype == DType::int32);
  const OpCost cost{.flops = double(x.numel()), .bytes = double(x.bytes())};
  run_op(ctx, "find_non_finite", x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { find_non_finite<D, T>(ctx, x, row); });
}

}  // namespace gradmill
