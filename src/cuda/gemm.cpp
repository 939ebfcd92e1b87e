// SPDX-License-Identifier: Apache-2.0
// With a fixed algorithm, GPU and workspace, cuBLASLt gives the same bits in every run, since it adds up the parts of a
// split k in a fixed order. A deterministic GEMM therefore only needs a plan that does not depend on timing: it takes
// the library's first suggestion, measures nothing and ignores the tuning cache.
#include "cuda/gemm.h"

#include <bit>
#include <unordered_map>

#include "core/error.h"
#include "core/gpu_catalogue.h"
#include "cuda/gpu_stream.h"
#include "cuda/gemm_plan.h"
#include "cuda/gemm_tuner.h"
#include "cuda/tuning_cache.h"

namespace gradmill::cuda {
namespace {

// The first suggestion is rarely far off. An algorithm that beats it is nearly always among the first dozen.
constexpr int kCandidates = 24;

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(TuningCache::Value));

// No run is possible without cuBLASLt. A user who lacks it is told before the run begins.
LtHandle make_handle(const CublasLt& library) {
  if (!library.error.empty()) {
    throw Error(ExitCode::failure, "matrix products on the GPU need cuBLASLt: " + library.error,
                "install CUDA's cuBLAS, version 13, or use machine.device=cpu");
  }
  cublasLtHandle_t handle = nullptr;
  library.check(library.create(&handle), "starting cuBLASLt");
  return {handle, library.destroy};
}

// Identifies GPU, driver and library: an algorithm that was fastest with one of them may not even run with another.
std::string machine_of(const EngineOptions& options, const CublasLt& library) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, options.index), "reading the properties of the GPU");
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  return fmt::format("{}, {} units, driver {}, cuBLASLt {}", properties.name, properties.multiProcessorCount, driver,
                     library.version());
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "asking whether a graph is being captured");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

struct Gemm::Impl {
  struct Planned {
    GemmPlan plan;
    cublasLtMatmulAlgo_t algo{};
  };

  explicit Impl(GpuStream& owner)
      : gpu(owner),
        handle(make_handle(library)),
        workspace(library_workspace(owner.compute_capability())),
        cache(owner.options().tuning_cache, machine_of(owner.options(), library)) {}

  LtContext context() const { return {library, handle.get(), workspace.bytes(), gpu.stream()}; }
  const Planned& planned(const GemmCall& call);
  cublasLtMatmulAlgo_t choose(const GemmPlan& plan, const GemmProblem& problem, const GemmCall& call);
  cublasLtMatmulAlgo_t tune(const GemmPlan& plan, const GemmProblem& problem, const GemmCall& call,
                            std::span<const cublasLtMatmulAlgo_t> algos);
  bool decide(const GemmProblem& problem, const GemmCall& call, const std::function<void()>& apart,
              const std::function<void()>& after);

  GpuStream& gpu;
  CublasLt library;
  LtHandle handle;
  DeviceMemory workspace;
  TuningCache cache;
  std::unordered_map<GemmProblem, Planned, GemmProblemHash> plans;
  std::unordered_map<GemmProblem, bool, GemmProblemHash> preferred;  // answers for problems with an epilogue
};

const Gemm::Impl::Planned& Gemm::Impl::planned(const GemmCall& call) {
  const GemmProblem problem = problem_of(call, gpu.compute_capability());
  if (const auto found = plans.find(problem); found != plans.end()) return found->second;
  Planned fresh{GemmPlan(library, problem, call)};
  fresh.algo = choose(fresh.plan, problem, call);
  return plans.emplace(problem, std::move(fresh)).first->second;
}

cublasLtMatmulAlgo_t Gemm::Impl::choose(const GemmPlan& plan, const GemmProblem& problem, const GemmCall& call) {
  if (!problem.deterministic) {
    if (const TuningCache::Value* known = cache.find(problem.str())) {
      const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(*known);
      if (plan.accepts(context(), algo)) return algo;
    }
  }
  const bool timed = gpu.options().autotune && !problem.deterministic && !is_capturing(gpu.stream());
  const std::vector<cublasLtMatmulAlgo_t> algos = plan.suggest(context(), timed ? kCandidates : 1);
  if (algos.empty()) {
    throw Error(ExitCode::failure, fmt::format("cuBLASLt has no algorithm for the product {}", problem.str()),
                "use sizes that are multiples of 8, or another precision");
  }
  return timed ? tune(plan, problem, call, algos) : algos.front();
}

cublasLtMatmulAlgo_t Gemm::Impl::tune(const GemmPlan& plan, const GemmProblem& problem, const GemmCall& call,
                                      std::span<const cublasLtMatmulAlgo_t> algos) {
  gpu.note_once("timing matrix products once, in the first step");
  try {
    const cublasLtMatmulAlgo_t algo = fastest(context(), plan, call, algos);
    cache.put(problem.str(), std::bit_cast<TuningCache::Value>(algo));
    return algo;
  } catch (const Error& error) {
    if (error.code() != ExitCode::out_of_memory) throw;
    gpu.note_once("some matrix products are not tuned: there is not enough memory to time them");
    return algos.front();
  }
}

// If the fused call is faster, keeps its plan and stores its algorithm in the cache. Otherwise the cache gets zeros.
bool Gemm::Impl::decide(const GemmProblem& problem, const GemmCall& call, const std::function<void()>& apart,
                        const std::function<void()>& after) {
  Planned fresh{GemmPlan(library, problem, call)};
  const auto run = [&] { return fresh.plan.run(context(), call, fresh.algo); };
  const auto is_faster = [&] {
    const std::vector<cublasLtMatmulAlgo_t> algos = fresh.plan.suggest(context(), kCandidates);
    if (algos.empty()) return false;
    fresh.algo = fastest(context(), fresh.plan, call, algos);
    if (run() != CUBLAS_STATUS_SUCCESS) {
      cudaGetLastError();  // so that the next check does not report this failure
      return false;
    }
    const auto together = [&] {
      library.check(run(), "a matrix product");
      after();
    };
    return clearly_faster(gpu.stream(), together, apart);
  };
  const TuningCache::Value* known = cache.find(problem.str());
  if (known != nullptr && *known == TuningCache::Value{}) return false;
  if (known != nullptr) fresh.algo = std::bit_cast<cublasLtMatmulAlgo_t>(*known);
  if (known == nullptr || !fresh.plan.accepts(context(), fresh.algo)) {
    const bool faster = is_faster();
    cache.put(problem.str(), faster ? std::bit_cast<TuningCache::Value>(fresh.algo) : TuningCache::Value{});
    if (!faster) return false;
  }
  return plans.emplace(problem, std::move(fresh)).second;
}

Gemm::Gemm(GpuStream& gpu) : impl_(std::make_unique<Impl>(gpu)) {}

// A cache that cannot be written is ignored here: the receiver of notes may already be destroyed.
Gemm::~Gemm() { impl_->cache.save(); }

void Gemm::run(const GemmCall& call) {
  assert(call.c.numel() > 0 && call.a.numel() > 0);
  assert(!call.bias.defined() || call.bias.dtype == call.c.dtype);
  const auto& [plan, algo] = impl_->planned(call);
  impl_->library.check(plan.run(impl_->context(), call, algo), "a matrix product");
}

bool Gemm::prefers(const GemmCall& call, const std::function<void()>& apart, const std::function<void()>& after) {
  assert(call.epilogue != GemmEpilogue::none && call.beta == 0);
  assert(call.aux.shape == call.c.shape && call.aux.dtype == call.c.dtype && call.c.dtype != DType::fp32);
  constexpr int64_t kStep = 8;  // the rows of aux must be a multiple of this
  const GemmProblem problem = problem_of(call, impl_->gpu.compute_capability());
  const bool can = impl_->gpu.options().autotune && !problem.deterministic && problem.stride_aux % kStep == 0 &&
                   problem.alignment[4] >= 16;
  if (!can) return false;
  if (const auto found = impl_->preferred.find(problem); found != impl_->preferred.end()) return found->second;
  if (is_capturing(impl_->gpu.stream())) return false;
  bool better = false;
  try {
    better = impl_->decide(problem, call, apart, after);
  } catch (const Error& error) {
    if (error.code() != ExitCode::out_of_memory) throw;
    impl_->gpu.note_once("some matrix products are not tuned: there is not enough memory to time them");
  }
  return impl_->preferred.emplace(problem, better).first->second;
}

size_t Gemm::workspace_bytes() const { return impl_->workspace.bytes().size(); }

void Gemm::save_tuning() {
  if (!impl_->cache.save()) impl_->gpu.note_once("cannot write the tuning cache " + impl_->gpu.options().tuning_cache);
}

}  // namespace gradmill::cuda
