// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "paper_gpu/ptx/machine.h"

namespace gradmill::paper::ptx {

// Runs the warp until it ends (no groups of lanes remain), waits at a barrier, or finds that what it polls is not ready
// (Warp::polls). Diverged lanes reconverge at the next instruction that both reach.
void run_warp(Warp& warp);

}  // namespace gradmill::paper::ptx
