// SPDX-License-Identifier: Apache-2.0
// The runtime's functions of streams, events, copies and graphs. Everything is done when it is enqueued, so that there
// is nothing to wait for; a captured graph does it when it is launched.
#include "paper_gpu/streams.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "paper_gpu/memory.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/status.h"

namespace gradmill::paper {

struct Graph {
  std::vector<std::function<void()>> work;
  size_t nodes = 0;
};

}  // namespace gradmill::paper

using namespace gradmill::paper;

struct CUstream_st {
  std::unique_ptr<Graph> capturing;
};
struct CUevent_st {
  double at = 0;  // milliseconds
  bool in_capture = false;
};
struct CUgraph_st : Graph {};
struct CUgraphExec_st : Graph {};

namespace gradmill::paper {
namespace {

std::atomic<size_t> num_done = 0;
constexpr double kMillisecondsEach = 0.01;

// Host memory that is not page-locked may be copied too, but not by a graph, which runs when it may be gone.
void check_copied(const void* data, size_t bytes, bool is_device, cudaStream_t stream, const std::string& what) {
  const bool known = Memory::device().holds(data) || Memory::host().holds(data);
  const bool captured = stream != nullptr && stream->capturing != nullptr;
  if (is_device || known || captured) expect_inside(data, bytes, Where::device_or_host, what);
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  check_copied(to, bytes, to_device, stream, "a copy writes");
  check_copied(from, bytes, from_device, stream, "a copy reads");
  return enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}

cudaError_t set(void* data, int value, size_t bytes, cudaStream_t stream) {
  expect_inside(data, bytes, Where::device_or_host, "a memset writes");
  return enqueue(stream, [=] { fill(data, value, bytes); });
}

cudaError_t wait_for(const CUstream_st* stream) {
  if (refusals().waits) return remember(cudaErrorLaunchFailure);
  if (stream == nullptr || stream->capturing == nullptr) return cudaSuccess;
  return refuse("the host waits for a stream that is being captured", cudaErrorStreamCaptureUnsupported);
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  if (stream != nullptr && stream->capturing != nullptr) {
    ++stream->capturing->nodes;
    if (work) stream->capturing->work.push_back(std::move(work));
    return cudaSuccess;
  }
  ++num_done;
  if (work) work();
  return cudaSuccess;
}

}  // namespace gradmill::paper

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  expect_chosen("a stream is made");
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return wait_for(stream); }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return wait_for(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return enqueue(stream, [=] { function(data); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  expect_chosen("an event is made");
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->in_capture = stream != nullptr && stream->capturing != nullptr;
  event->at = kMillisecondsEach * double(num_done);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (refusals().waits) return remember(cudaErrorLaunchFailure);
  if (!event->in_capture) return cudaSuccess;
  return refuse("the host waits for an event of a graph", cudaErrorCapturedEvent);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  *milliseconds = static_cast<float>(end->at - start->at + kMillisecondsEach);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  return set(data, value, bytes, stream);
}
cudaError_t cudaMemset(void* data, int value, size_t bytes) { return set(data, value, bytes, nullptr); }
cudaError_t cudaMemset2DAsync(void* data, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  if (width > pitch) return refuse("rows of a memset overlap");
  for (size_t row = 0; row < height; ++row) set(static_cast<std::byte*>(data) + row * pitch, value, width, stream);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->capturing) return refuse("a stream is captured twice", cudaErrorIllegalState);
  stream->capturing = std::make_unique<Graph>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!stream->capturing) return refuse("a capture ends that never began", cudaErrorIllegalState);
  *graph = new CUgraph_st{std::move(*stream->capturing)};
  stream->capturing.reset();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* runnable, cudaGraph_t graph, unsigned long long) {
  if (refusals().graphs) return remember(cudaErrorMemoryAllocation);
  *runnable = new CUgraphExec_st{*graph};
  ++counts().graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  ++counts().graph_launches;
  num_done += graph->nodes;
  for (const auto& work : graph->work) work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

}  // extern "C"
