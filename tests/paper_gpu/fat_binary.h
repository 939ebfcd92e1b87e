// SPDX-License-Identifier: Apache-2.0
// The PTX that a compiler puts into an object file.
#pragma once

#include <string>
#include <vector>

#include "paper_gpu/ptx/module.h"

namespace gradmill::paper {

// The newest PTX in it that a GPU of this compute capability takes, or null. Throws where the PTX is compressed.
ptx::Module* load_ptx(const void* wrapper, int compute_capability);

// For a mutated kernel in the place of the binary's: of the files that PAPER_PTX names, separated by colons; null where
// none of them has it. Names of files that a compiler adds to those of kernels count for nothing.
const ptx::Kernel* replaced_kernel(const std::string& name);

}  // namespace gradmill::paper
