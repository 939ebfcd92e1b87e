// SPDX-License-Identifier: Apache-2.0
// A build without CUDA has nothing to report.
#include "cuda/report.h"

namespace gradmill::cuda {

Report report() {
  Report report;
  report.no_gpu = "this build has no CUDA; build with 'make CUDA=on'";
  return report;
}

}  // namespace gradmill::cuda
