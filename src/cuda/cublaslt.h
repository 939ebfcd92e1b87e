// SPDX-License-Identifier: Apache-2.0
// The cuBLASLt functions that we use, loaded at run time: the library is half a gigabyte, and a binary linked to it
// could not start on a machine without a GPU.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <source_location>
#include <string>

#include "cuda/library.h"

namespace gradmill::cuda {

struct CublasLt {
  CublasLt();

  // Why the functions below cannot be called; empty if they can.
  std::string error;
  // Throws unless `status` is success.
  void check(cublasStatus_t status, const char* what,
             std::source_location where = std::source_location::current()) const;

  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtDestroy) destroy = nullptr;
  decltype(&::cublasLtGetVersion) version = nullptr;
  decltype(&::cublasLtGetStatusString) status_string = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
  decltype(&::cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&::cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&::cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&::cublasLtMatmulAlgoCheck) algo_check = nullptr;

 private:
  Library library_;
};

// Owners of the library's objects, which call its functions to free them.
using LtHandle = std::unique_ptr<cublasLtContext, cublasStatus_t (*)(cublasLtHandle_t)>;
using LtMatmulDesc = std::unique_ptr<cublasLtMatmulDescOpaque_t, cublasStatus_t (*)(cublasLtMatmulDesc_t)>;
using LtLayout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, cublasStatus_t (*)(cublasLtMatrixLayout_t)>;
using LtPreference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, cublasStatus_t (*)(cublasLtMatmulPreference_t)>;

}  // namespace gradmill::cuda
