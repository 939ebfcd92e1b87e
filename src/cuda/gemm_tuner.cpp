// SPDX-License-Identifier: Apache-2.0
#include "cuda/gemm_tuner.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/error.h"
#include "cuda/handles.h"

namespace gradmill::cuda {
namespace {

constexpr auto kBudget = std::chrono::milliseconds(150);
constexpr int kRounds = 10;
// An algorithm that is this much slower than the best in one cold measurement is dropped.
constexpr float kHopeless = 1.15f;
// The library's first suggestion is right for a GPU at its power limit. Training reaches that limit; a trial of
// milliseconds does not. An algorithm that wins a trial by less than this seldom wins in training.
constexpr float kFavourite = 0.96f;
// A smaller difference is noise.
constexpr float kClearlyFaster = 0.99f;

class Stopwatch {
 public:
  bool past(std::chrono::milliseconds limit) const { return std::chrono::steady_clock::now() - start_ > limit; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The call, with a copy of c if trials would change what the real call reads. The operands are the real ones, because
// products of zeros draw less power and run faster.
class TrialCall {
 public:
  TrialCall(const GemmCall& call, cudaStream_t stream) : call_(call) {
    if (call.beta == 0) return;
    const int64_t last = (call.batch.count - 1) * call.batch.c;
    const auto elements = static_cast<size_t>(last + (call.c.rows() - 1) * call.c.row_stride + call.c.cols());
    copy_ = DeviceMemory(elements * size_of(call.c.dtype));
    call_.c.data = copy_.bytes().data();
    check(cudaMemcpyAsync(call_.c.data, call.c.data, copy_.bytes().size(), cudaMemcpyDefault, stream),
          "copying a result aside");
  }
  const GemmCall& get() const { return call_; }

 private:
  GemmCall call_;
  DeviceMemory copy_;
};

// Overwrites the L2 cache between trials, because in a step other ops run between two calls of one GEMM. This also
// keeps the GPU busy while the host enqueues the trial, so that launch time is not measured.
class CacheFlush {
 public:
  explicit CacheFlush(cudaStream_t stream) : stream_(stream) {
    int device = 0, l2_bytes = 0;
    check(cudaGetDevice(&device), "asking for the GPU");
    check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "reading a property of the GPU");
    memory_ = DeviceMemory(2 * static_cast<size_t>(l2_bytes));
  }
  void operator()() const {
    if (!memory_.bytes().empty())
      check(cudaMemsetAsync(memory_.bytes().data(), 0, memory_.bytes().size(), stream_), "emptying the cache");
  }

 private:
  cudaStream_t stream_;
  DeviceMemory memory_;
};

class Clock {
 public:
  // Enqueues the work to time. Call read() after waiting for the stream.
  template <class Enqueue>
  void time(cudaStream_t stream, const Enqueue& enqueue) {
    check(cudaEventRecord(begin_.get(), stream), "timing a matrix product");
    enqueue();
    check(cudaEventRecord(end_.get(), stream), "timing a matrix product");
  }
  void read() {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "timing a matrix product");
    milliseconds_.push_back(milliseconds);
  }
  float best() const { return *std::min_element(milliseconds_.begin(), milliseconds_.end()); }
  float median() const {
    std::vector<float> sorted = milliseconds_;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2), sorted.end());
    return sorted[sorted.size() / 2];
  }

 private:
  Event begin_ = make_event(true), end_ = make_event(true);
  std::vector<float> milliseconds_;
};

struct Candidate {
  cublasLtMatmulAlgo_t algo;
  bool favourite;
  Clock clock{};

  float best() const { return clock.best(); }
  float median() const { return clock.median(); }
};

// Runs every algorithm once, to load its kernel, and keeps those that work.
std::vector<Candidate> warm_up(const LtContext& lt, const GemmPlan& plan, const GemmCall& call,
                               std::span<const cublasLtMatmulAlgo_t> algos, const Stopwatch& watch) {
  std::vector<Candidate> candidates;
  for (const cublasLtMatmulAlgo_t& algo : algos) {
    if (candidates.size() > 1 && watch.past(kBudget / 2)) break;
    if (plan.run(lt, call, algo) != CUBLAS_STATUS_SUCCESS) {
      cudaGetLastError();  // so that the next check does not report this failure
      continue;
    }
    check(cudaStreamSynchronize(lt.stream), "trying a matrix product");
    candidates.push_back({.algo = algo, .favourite = &algo == algos.data()});
  }
  return candidates;
}

// Measures each candidate once, in turn, so that a change of clocks affects all of them.
void time_each(const LtContext& lt, const GemmPlan& plan, const GemmCall& call, const CacheFlush& flush,
               std::vector<Candidate>& candidates) {
  for (Candidate& candidate : candidates) {
    flush();
    candidate.clock.time(lt.stream,
                         [&] { lt.library.check(plan.run(lt, call, candidate.algo), "timing a matrix product"); });
  }
  check(cudaStreamSynchronize(lt.stream), "timing a matrix product");
  for (Candidate& candidate : candidates) candidate.clock.read();
}

void drop_hopeless(std::vector<Candidate>& candidates) {
  float best = std::numeric_limits<float>::infinity();
  for (const Candidate& candidate : candidates) best = std::min(best, candidate.best());
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.best() > kHopeless * best; });
}

}  // namespace

cublasLtMatmulAlgo_t fastest(const LtContext& lt, const GemmPlan& plan, const GemmCall& call,
                             std::span<const cublasLtMatmulAlgo_t> algos) {
  assert(!algos.empty());
  if (algos.size() == 1) return algos.front();
  const TrialCall trial(call, lt.stream);
  const CacheFlush flush(lt.stream);
  const Stopwatch watch;
  std::vector<Candidate> candidates = warm_up(lt, plan, trial.get(), algos, watch);
  if (candidates.empty()) return algos.front();  // run() then reports the error
  for (int round = 0; round < kRounds && candidates.size() > 1; ++round) {
    if (round > 1 && watch.past(kBudget)) break;
    time_each(lt, plan, trial.get(), flush, candidates);
    drop_hopeless(candidates);
  }
  if (candidates.size() == 1) return candidates.front().algo;
  const auto shortest = std::min_element(candidates.begin(), candidates.end(),
                                         [](const auto& a, const auto& b) { return a.median() < b.median(); });
  const Candidate& first = candidates.front();
  const bool stay = first.favourite && shortest->median() > kFavourite * first.median();
  return stay ? first.algo : shortest->algo;
}

bool clearly_faster(cudaStream_t stream, const std::function<void()>& one, const std::function<void()>& other) {
  const CacheFlush flush(stream);
  one();
  other();
  Clock first, second;
  for (int round = 0; round < kRounds; ++round) {
    flush();
    first.time(stream, one);
    flush();
    second.time(stream, other);
    check(cudaStreamSynchronize(stream), "timing a matrix product");
    first.read();
    second.read();
  }
  return first.median() < kClearlyFaster * second.median();
}

}  // namespace gradmill::cuda
