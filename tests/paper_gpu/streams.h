// SPDX-License-Identifier: Apache-2.0
// What is enqueued on the paper GPU's streams: kept while a graph is captured, and else done as late as a GPU may do
// it, when somebody waits.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace gradmill::paper {

// `work` may be empty: kernels do nothing but take their time.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
// For what is no work of the GPU but must be seen in the order of its kernels: done with those of the stream that
// launched the last one, in graphs too.
void keep_order(cudaStream_t stream);
void enqueue_in_order(std::function<void()> work);
// All that was enqueued is done, and the next work in order waits for no stream. Not while a graph is captured.
void end_order();
bool is_captured(cudaStream_t stream);
// Where times are modelled each stream has a clock, and the host another: the host's work takes no time, but what it
// waits for does. The work that is being done takes so long.
void take_time(double seconds);
double host_seconds();
// All that was enqueued anywhere is done.
void finish_all();

}  // namespace gradmill::paper
