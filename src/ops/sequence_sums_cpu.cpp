// SPDX-License-Identifier: Apache-2.0
// Sums by sequence on the CPU: row by row.
#include "ops/sequence_sums.h"

namespace gradmill {

template <Device D, class T>
void sequence_sums(ExecContext&, const SequenceSumsArgs& args) {
  const int32_t* cu = args.cu.ptr<int32_t>();
  for (int64_t s = 0; s < args.sums.numel(); ++s) {
    assert(cu[s] <= cu[s + 1] && cu[s + 1] <= args.values.numel());
    double sum = 0;
    for (int64_t row = cu[s]; row < cu[s + 1]; ++row) sum += double(args.values.ptr<float>()[row]);
    args.sums.ptr<float>()[s] = static_cast<float>(sum);
  }
}

template void sequence_sums<Device::cpu, float>(ExecContext&, const SequenceSumsArgs&);

}  // namespace gradmill
