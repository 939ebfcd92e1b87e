// SPDX-License-Identifier: Apache-2.0
// What the cost model does not take from data sheets. Calibrated on one H200: docs/benchmarks/paper.md says on what,
// and how well it fits.
#pragma once

namespace gradmill::paper::model {

inline constexpr double kLaunchSeconds = 2.8e-6;  // from one kernel's last block to the next one's first
inline constexpr double kEventSeconds = 1.5e-6;   // of the GPU's time, for each event
inline constexpr double kBandwidthShare = 0.89;   // of the data sheet's bytes/s that a large copy reaches
inline constexpr double kMatrixShare = 0.79;      // of the data sheet's FLOP/s that a large product reaches
inline constexpr double kWarpMatrixShare = 0.62;  // of that for products of single warps, where there are warpgroups'
inline constexpr double kProductSteps = 48;       // of k that a library's product takes longer to begin and to end
inline constexpr double kIssuedShare = 0.8;       // instructions of machine code for each of PTX
inline constexpr double kInstructionCycles = 4;   // until the next instruction of the same warp may begin
inline constexpr double kMemoryCycles = 120;      // that a warp waits for each of its accesses of global memory
// Parts that could overlap add up to the root of their powers: 1 would be no overlap, infinity a perfect one.
inline constexpr double kOverlap = 3;

// What everybody who reads modelled times should know of them; the numbers are those of docs/benchmarks/paper.md.
inline constexpr const char* kFit =
    "times are modelled, not measured. Beside four models measured on an H200, on which the cost model was calibrated, "
    "whole steps are off by 3 to 8%, half of the ops by less than 6%, the worst by 50%. No other GPU was compared. See "
    "docs/benchmarks/paper.md";

}  // namespace gradmill::paper::model
