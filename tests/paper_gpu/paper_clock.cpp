// SPDX-License-Identifier: Apache-2.0
// The host's clock where times are modelled: it stands still but for the time that the host waits for the paper GPU.
// Linked into gradmill_on_paper, where the linker puts this function in the place of the library's own (--wrap).
#include <chrono>

#include "paper_gpu/model/launch_time.h"
#include "paper_gpu/streams.h"

using Clock = std::chrono::steady_clock;

extern "C" {

// The name of std::chrono::steady_clock::now, as the compiler writes it.
Clock::time_point __real__ZNSt6chrono3_V212steady_clock3nowEv();
Clock::time_point __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  using gradmill::paper::host_seconds;
  if (!gradmill::paper::model::models_time()) return __real__ZNSt6chrono3_V212steady_clock3nowEv();
  const std::chrono::duration<double> now(host_seconds());
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(now));
}

}  // extern "C"
