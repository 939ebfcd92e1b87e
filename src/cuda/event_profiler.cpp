// SPDX-License-Identifier: Apache-2.0
#include "cuda/event_profiler.h"

#include <chrono>
#include <thread>

namespace gradmill::cuda {
namespace {

void CUDART_CB pause(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

}  // namespace

void EventProfiler::before(std::string_view op) {
  // If the GPU has caught up, the time until the next launch would count towards the op. So let the GPU pause until the
  // host is ahead again.
  if (cudaStreamQuery(engine_.stream()) == cudaSuccess) {
    check(cudaLaunchHostFunc(engine_.stream(), pause, nullptr), "timing an op");
  } else {
    cudaGetLastError();  // "not ready" is a valid result: clear it, or the next launch would report it
  }
  spans_.push_back({std::string(op), make_event(true), make_event(true)});
  check(cudaEventRecord(spans_.back().begin.get(), engine_.stream()), "timing an op");
}

void EventProfiler::after(std::string_view) {
  check(cudaEventRecord(spans_.back().end.get(), engine_.stream()), "timing an op");
}

EventProfiler::~EventProfiler() {
  if (cudaStreamSynchronize(engine_.stream()) != cudaSuccess) return;
  for (const Span& span : spans_) {
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, span.begin.get(), span.end.get());
    ledger_.add_measured(span.op, double(milliseconds) * 1e-3);
  }
}

}  // namespace gradmill::cuda
