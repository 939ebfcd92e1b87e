// SPDX-License-Identifier: Apache-2.0
// Parameters of the cost model that are not in data sheets. Calibrated on one H200: docs/benchmarks/paper.md describes
// on what, and how well the model fits.
#pragma once

namespace gradmill::paper::model {

inline constexpr double kLaunchSeconds = 2.8e-6;  // from the last block of a kernel to the first block of the next
inline constexpr double kEventSeconds = 1.5e-6;   // GPU time per event
inline constexpr double kBandwidthShare = 0.89;   // fraction of the data sheet's bytes/s that a large copy reaches
inline constexpr double kMatrixShare = 0.79;      // fraction of the data sheet's FLOP/s that a large GEMM reaches
inline constexpr double kWarpMatrixShare = 0.62;  // fraction of that for products of single warps on GPUs with
                                                  // warpgroup products
inline constexpr double kProductSteps = 48;  // extra steps of k that account for the start and end of a library's GEMM
inline constexpr double kIssuedShare = 0.8;  // machine instructions per PTX instruction
inline constexpr double kInstructionCycles = 4;  // until the same warp can issue its next instruction
inline constexpr double kMemoryCycles = 120;     // that a warp waits for each access to global memory
// Parts that could overlap are combined with this power: 1 would be no overlap, infinity a perfect one.
inline constexpr double kOverlap = 3;

// A note that is shown with modelled times. The numbers are those of docs/benchmarks/paper.md.
inline constexpr const char* kFit =
    "times are modelled, not measured. Beside four models measured on an H200, on which the cost model was calibrated, "
    "whole steps are off by 3 to 8%, half of the ops by less than 6%, the worst by 50%. No other GPU was compared. See "
    "docs/benchmarks/paper.md";

}  // namespace gradmill::paper::model
