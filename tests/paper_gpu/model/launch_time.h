// SPDX-License-Identifier: Apache-2.0
// Times launches: PAPER_TIME=model. Where the GPU computes, a launch's own counts tell its time. Where it does not
// (PAPER_GPU_COMPUTES=off), a few of its blocks run for the counts and stand for all.
#pragma once

#include <cstddef>
#include <vector>

#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/ptx/run.h"

namespace gradmill::paper::model {

// Whether the paper GPU's clock tells modelled times.
bool models_time();

// The addresses among a launch's parameters, with nothing counted yet.
std::vector<ptx::Extent> extents_of(const std::vector<std::byte>& params);

// The modelled time of a launch whose blocks all ran.
double seconds_of(const ptx::Kernel& kernel, const ptx::Launch& launch, const ptx::Counts& counts);
// Runs blocks spread over the grid, without checks. Launches that differ in nothing but addresses are sampled once.
double sampled_seconds(const ptx::Kernel& kernel, const ptx::Launch& launch, const std::vector<std::byte>& params);

}  // namespace gradmill::paper::model
