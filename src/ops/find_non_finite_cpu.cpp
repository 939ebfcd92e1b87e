// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/find_non_finite.h"

namespace gradmill {

template <Device D, class T>
void find_non_finite(ExecContext&, const TensorView& x, const TensorView& row) {
  int32_t& found = *row.ptr<int32_t>();
  found = -1;
  for (int64_t r = 0; r < x.rows() && found < 0; ++r) {
    const T* values = x.row<T>(r);
    for (int64_t c = 0; c < x.cols(); ++c) {
      if (!std::isfinite(static_cast<float>(values[c]))) found = static_cast<int32_t>(r);
    }
  }
}

template void find_non_finite<Device::cpu, float>(ExecContext&, const TensorView&, const TensorView&);
template void find_non_finite<Device::cpu, Bf16>(ExecContext&, const TensorView&, const TensorView&);
template void find_non_finite<Device::cpu, Fp16>(ExecContext&, const TensorView&, const TensorView&);

}  // namespace gradmill
