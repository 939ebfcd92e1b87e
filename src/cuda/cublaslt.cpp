// SPDX-License-Identifier: Apache-2.0
#include "cuda/cublaslt.h"

#include "core/error.h"

namespace gradmill::cuda {

CublasLt::CublasLt()
    : library_(Library::open({"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13"})) {
  if (!library_.is_open()) {
    error = library_.error();
    return;
  }
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(library_.symbol(name));
    if (function == nullptr && error.empty()) error = fmt::format("this cuBLASLt has no {}", name);
  };
  find(create, "cublasLtCreate");
  find(destroy, "cublasLtDestroy");
  find(version, "cublasLtGetVersion");
  find(status_string, "cublasLtGetStatusString");
  find(matmul, "cublasLtMatmul");
  find(desc_create, "cublasLtMatmulDescCreate");
  find(desc_destroy, "cublasLtMatmulDescDestroy");
  find(desc_set, "cublasLtMatmulDescSetAttribute");
  find(layout_create, "cublasLtMatrixLayoutCreate");
  find(layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(layout_set, "cublasLtMatrixLayoutSetAttribute");
  find(preference_create, "cublasLtMatmulPreferenceCreate");
  find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(algo_check, "cublasLtMatmulAlgoCheck");
}

void CublasLt::check(cublasStatus_t status, const char* what, std::source_location where) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::string_view file = where.file_name();
  if (const size_t slash = file.rfind("/src/"); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  throw Error(ExitCode::failure,
              fmt::format("{} failed: cuBLASLt says {} ({}:{})", what, status_string(status), file, where.line()),
              "if it happens again, run under compute-sanitizer and report it with the command you ran");
}

}  // namespace gradmill::cuda
