// SPDX-License-Identifier: Apache-2.0
#include "cuda/sdpa_problem.h"

#include <algorithm>

namespace gradmill::cuda {
namespace {

std::string wrong_on_consumer_blackwell(const SdpaProblem& problem, size_t version) {
  if (problem.ragged) {
    return "cuDNN's gradients of sequences of different lengths are not reliable on compute capability 12.x";
  }
  if (problem.deterministic) return "cuDNN has no deterministic backward on compute capability 12.x";
  if (version < 91801) return "attention on compute capability 12.x needs cuDNN 9.18.1";
  return {};
}

std::string wrong_on_hopper(const SdpaProblem& problem, size_t version) {
  if (problem.ragged && version < 91800) {
    return "before cuDNN 9.18 the backward of sequences of different lengths reads memory that was never written";
  }
  // These versions do not mask the last 64 keys, except with a padding mask, which ragged problems have.
  const bool causal = problem.right == 0;
  if (!causal && !problem.ragged && problem.len % 128 == 64 && version < 92600) {
    return "before cuDNN 9.26 the backward without a causal mask is wrong for lengths of 64 more than a multiple of "
           "128";
  }
  return {};
}

}  // namespace

std::string known_wrong_in_cudnn(const SdpaProblem& problem, int compute_capability, size_t version) {
  constexpr int64_t kWidestWindow = 1024;
  if (version == 91000 || version == 91001) return "cuDNN 9.10.0 and 9.10.1 give wrong results";
  const int64_t window = std::max(problem.left, problem.right);
  if (version / 100 == 914 && problem.right != 0 && window > kWidestWindow) {
    return "cuDNN 9.14 is wrong for windows of more than 1024 tokens without a causal mask";
  }
  if (compute_capability / 10 == 12) return wrong_on_consumer_blackwell(problem, version);
  if (compute_capability == 90) return wrong_on_hopper(problem, version);
  return {};
}

}  // namespace gradmill::cuda
