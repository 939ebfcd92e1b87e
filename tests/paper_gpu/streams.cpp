// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions for streams, events and graphs. A stream lags behind the host as far as allowed, so that
// errors show when page-locked memory is overwritten before its copy was waited for, or read before the copy arrived.
#include "paper_gpu/streams.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "paper_gpu/model/launch_time.h"
#include "paper_gpu/model/parameters.h"
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
  struct Pending {
    std::function<void()> work;
    double not_before;  // in seconds: when the host enqueued it
  };
  std::unique_ptr<Graph> capturing;
  std::deque<Pending> pending;
  size_t num_done = 0;
  double clock = 0;  // in seconds

  size_t num_enqueued() const { return num_done + pending.size(); }
};
struct CUgraph_st : Graph {};
struct CUgraphExec_st : Graph {};

namespace gradmill::paper {
namespace {

// The stream whose work is being done, or null.
cudaStream_t working_stream = nullptr;
double host_clock = 0;  // in seconds

// A position in a stream: everything that was enqueued before it.
struct Place {
  cudaStream_t stream = nullptr;
  size_t end = 0;
};

std::set<cudaStream_t>& live_streams() {
  static std::set<cudaStream_t> all;
  return all;
}

void finish(const Place& place) {
  if (!live_streams().contains(place.stream)) return;  // destroying a stream waits for it
  CUstream_st& stream = *place.stream;
  while (stream.num_done < place.end) {
    const CUstream_st::Pending next = std::move(stream.pending.front());
    stream.pending.pop_front();
    ++stream.num_done;
    stream.clock = std::max(stream.clock, next.not_before);
    const cudaStream_t before = std::exchange(working_stream, place.stream);
    if (next.work) next.work();
    working_stream = before;
  }
}

void host_waits_until(double seconds) { host_clock = std::max(host_clock, seconds); }

Place end_of(cudaStream_t stream) { return {stream, stream->num_enqueued()}; }

// The stream with the last kernel launch or capture start.
cudaStream_t last_stream = nullptr;
std::atomic<size_t> num_nodes = 0;
constexpr double kSecondsEach = 1e-5;  // if times are not modelled

}  // namespace

bool is_captured(cudaStream_t stream) { return stream != nullptr && stream->capturing != nullptr; }

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  if (is_captured(stream)) {
    ++stream->capturing->nodes;
    if (work) stream->capturing->work.push_back(std::move(work));
    return cudaSuccess;
  }
  ++num_nodes;
  if (stream != nullptr) {
    stream->pending.push_back({std::move(work), host_clock});
  } else if (work) {
    work();
  }
  return cudaSuccess;
}

void keep_order(cudaStream_t stream) { last_stream = stream; }

void enqueue_in_order(std::function<void()> work) {
  const bool is_live = last_stream != nullptr && live_streams().contains(last_stream);
  if (is_live && (is_captured(last_stream) || !last_stream->pending.empty())) {
    enqueue(last_stream, std::move(work));
  } else {
    work();
  }
}

void end_order() {
  if (live_streams().contains(last_stream) && is_captured(last_stream)) return;
  finish_all();
  last_stream = nullptr;
}

void take_time(double seconds) { (working_stream != nullptr ? working_stream->clock : host_clock) += seconds; }
double host_seconds() { return host_clock; }

void finish_all() {
  for (const cudaStream_t stream : live_streams()) {
    finish(end_of(stream));
    host_waits_until(stream->clock);
  }
}

}  // namespace gradmill::paper

struct CUevent_st {
  Place place;
  std::shared_ptr<double> at = std::make_shared<double>(0);  // in seconds; of the last record
  bool in_capture = false;
};

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  expect_chosen("a stream is made");
  *stream = new CUstream_st;
  live_streams().insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  finish(end_of(stream));
  live_streams().erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (refusals().waits) return remember(cudaErrorLaunchFailure);
  if (is_captured(stream)) {
    return refuse("the host waits for a stream that is being captured", cudaErrorStreamCaptureUnsupported);
  }
  finish(end_of(stream));
  host_waits_until(stream->clock);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  finish_all();
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return remember(stream->pending.empty() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return enqueue(stream, [place = event->place, at = event->at] {
    finish(place);
    if (working_stream != nullptr) working_stream->clock = std::max(working_stream->clock, *at);
  });
}
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
  event->in_capture = is_captured(stream);
  event->at = std::make_shared<double>(kSecondsEach * double(num_nodes));
  if (model::models_time() && !event->in_capture) {
    enqueue(stream, [stream, at = event->at] {
      take_time(model::kEventSeconds);
      *at = stream->clock;
    });
  }
  event->place = end_of(stream);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (refusals().waits) return remember(cudaErrorLaunchFailure);
  if (event->in_capture) return refuse("the host waits for an event of a graph", cudaErrorCapturedEvent);
  finish(event->place);
  if (model::models_time()) host_waits_until(*event->at);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  constexpr double kMillisecondsASecond = 1e3;
  const double seconds = *end->at - *start->at + (model::models_time() ? 0 : kSecondsEach);
  *milliseconds = static_cast<float>(seconds * kMillisecondsASecond);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->capturing) return refuse("a stream is captured twice", cudaErrorIllegalState);
  stream->capturing = std::make_unique<Graph>();
  keep_order(stream);
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
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  ++counts().graph_launches;
  num_nodes += graph->nodes;
  return enqueue(stream, [work = graph->work] {
    for (const auto& each : work) each();
  });
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
