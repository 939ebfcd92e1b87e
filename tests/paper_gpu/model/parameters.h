// SPDX-License-Identifier: Apache-2.0
// What the cost model does not take from data sheets. Calibrated on one H200: docs/benchmarks/paper.md says on what,
// and how well it fits.
#pragma once

namespace gradmill::paper::model {

inline constexpr double kLaunchSeconds = 2.5e-6;  // from one kernel's last block to the next one's first
inline constexpr double kEventSeconds = 1.5e-6;   // of the GPU's time, for each event
inline constexpr double kBandwidthShare = 0.89;   // of the data sheet's bytes/s that a large copy reaches
inline constexpr double kMatrixShare = 0.80;      // of the data sheet's FLOP/s that a large product reaches
inline constexpr double kIssuedShare = 0.8;       // instructions of machine code for each of PTX
inline constexpr double kInstructionCycles = 5;   // until the next instruction of the same warp may begin
inline constexpr double kMemoryCycles = 150;      // that a warp waits for each of its accesses of global memory
// Parts that could overlap add up to the root of their powers: 1 would be no overlap, infinity a perfect one.
inline constexpr double kOverlap = 3;

}  // namespace gradmill::paper::model
