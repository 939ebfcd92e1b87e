// SPDX-License-Identifier: Apache-2.0
// The PTX that a compiler puts into an object file.
#pragma once

#include <string>
#include <vector>

#include "paper_gpu/ptx/module.h"

namespace gradmill::paper {

// The newest PTX in the binary that a GPU of this compute capability can run, or null. Throws if the PTX is compressed.
ptx::Module* load_ptx(const void* wrapper, int compute_capability);

// Replaces the binary's kernel by a mutated one from the files that PAPER_PTX lists, separated by colons; null if none
// of them has it. The parts of kernel names that a compiler derives from file names are ignored.
const ptx::Kernel* replaced_kernel(const std::string& name);

}  // namespace gradmill::paper
