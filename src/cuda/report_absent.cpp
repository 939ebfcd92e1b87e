// SPDX-License-Identifier: Apache-2.0
// For builds without CUDA: nothing to report.
#include "cuda/devices.h"
#include "cuda/report.h"

namespace gradmill::cuda {

Report report() {
  Report report;
  report.no_gpu = why_no_gpu();
  return report;
}

}  // namespace gradmill::cuda
