// SPDX-License-Identifier: Apache-2.0
// The host's clock while times are modelled: it advances only when the host waits for the paper GPU. Linked into
// gradmill_on_paper, where the linker substitutes this function for the library's own (--wrap).
#include <chrono>

#include "paper_gpu/model/launch_time.h"
#include "paper_gpu/streams.h"

using Clock = std::chrono::steady_clock;

extern "C" {

// The mangled name of std::chrono::steady_clock::now.
Clock::time_point __real__ZNSt6chrono3_V212steady_clock3nowEv();
Clock::time_point __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  using gradmill::paper::host_seconds;
  if (!gradmill::paper::model::models_time()) return __real__ZNSt6chrono3_V212steady_clock3nowEv();
  const std::chrono::duration<double> now(host_seconds());
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(now));
}

}  // extern "C"
