// SPDX-License-Identifier: Apache-2.0
// Times launches: PAPER_TIME=model. If the GPU computes, the launch's own counts determine its time. If it does not
// (PAPER_GPU_COMPUTES=off), a few of its blocks are run to get counts that represent all blocks.
#pragma once

#include <cstddef>
#include <vector>

#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/ptx/run.h"

namespace gradmill::paper::model {

// Whether the paper GPU's clock shows modelled times.
bool models_time();

// The addresses among a launch's parameters, with empty counts.
std::vector<ptx::Extent> extents_of(const std::vector<std::byte>& params);

// The modelled time of a launch whose blocks all ran.
double seconds_of(const ptx::Kernel& kernel, const ptx::Launch& launch, const ptx::Counts& counts);
// Runs blocks spread over the grid, without checks. Launches that differ only in addresses are sampled once.
double sampled_seconds(const ptx::Kernel& kernel, const ptx::Launch& launch, const std::vector<std::byte>& params);

}  // namespace gradmill::paper::model
