// SPDX-License-Identifier: Apache-2.0
#include "cuda/check.h"

#include <string_view>

#include "core/error.h"

namespace gradmill::cuda {

void check(cudaError_t status, const char* what, std::source_location where) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next check does not report it again
  std::string_view file = where.file_name();
  if (const size_t slash = file.rfind("/src/"); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  const bool memory = status == cudaErrorMemoryAllocation;
  throw Error(memory ? ExitCode::out_of_memory : ExitCode::failure,
              fmt::format("{} failed: {} ({}:{})", what, cudaGetErrorString(status), file, where.line()),
              memory ? "use a smaller micro-batch, context or model, or machine.save_policy=cheap"
                     : "if it happens again, run under compute-sanitizer and report it with the command you ran");
}

}  // namespace gradmill::cuda
