// SPDX-License-Identifier: Apache-2.0
// Work enqueued on the paper GPU's streams. While a graph is captured it is stored; otherwise it is done as late as a
// GPU may do it, when the host waits.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace gradmill::paper {

// `work` may be empty: the kernel then only takes time.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
// For actions that are not GPU work but must be ordered with its kernels. They run with the work of the stream that
// launched the last kernel, also in graphs.
void keep_order(cudaStream_t stream);
void enqueue_in_order(std::function<void()> work);
// Finishes all enqueued work; the next ordered action waits for no stream. Not allowed while a graph is captured.
void end_order();
bool is_captured(cudaStream_t stream);
// If times are modelled, each stream has a clock, and the host has another. The host's work takes no time, but its
// waits do. Sets the duration of the work being done.
void take_time(double seconds);
double host_seconds();
// Finishes all enqueued work on all streams.
void finish_all();

}  // namespace gradmill::paper
