// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "paper_gpu/ptx/machine.h"

namespace gradmill::paper::ptx {

// Runs the warp until it ends (no groups of lanes are left), waits at a barrier, or finds that what it asks for is not
// there yet (Warp::polls). Lanes that took different ways meet again at the next place that both come to.
void run_warp(Warp& warp);

}  // namespace gradmill::paper::ptx
