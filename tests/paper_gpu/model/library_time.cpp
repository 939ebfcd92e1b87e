// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/model/library_time.h"

#include <algorithm>
#include <cmath>

#include "paper_gpu/model/kernel_time.h"
#include "paper_gpu/model/parameters.h"
#include "paper_gpu/model/rates.h"

namespace gradmill::paper::model {
namespace {

// Tiles that a multiprocessor computes at a time. If there are fewer tiles than multiprocessors, the library uses
// smaller ones or splits k, so that all are busy.
struct Tile {
  double rows, cols;
};
constexpr Tile kTiles[] = {{128, 256}, {256, 128}, {128, 128}};

double share_of_rounds(const Product& product, const Tile& tile) {
  const double tiles = std::ceil(product.m / tile.rows) * std::ceil(product.n / tile.cols) * product.count;
  const double rounds = tiles / rates().num_units;
  return rounds <= 1 ? 1 : rounds / std::ceil(rounds);
}
double best_share_of_rounds(const Product& product) {
  double best = 0;
  for (const Tile& tile : kTiles) best = std::max(best, share_of_rounds(product, tile));
  return best;
}

}  // namespace

double product_seconds(const Product& product) {
  const double flops = 2 * product.m * product.n * (product.k + kProductSteps) * product.count;
  const double matrix =
      flops / (kMatrixShare * matrix_flops(product.bits, product.tf32) * best_share_of_rounds(product));
  const double memory = product.bytes / (kBandwidthShare * rates().bandwidth);
  return kLaunchSeconds + overlapped({matrix, memory});
}

double attention_seconds(double flops, double bytes) {
  constexpr double kShare = 0.6;  // of the rate of large GEMMs
  const double matrix = flops / (kShare * kMatrixShare * matrix_flops(16));
  return kLaunchSeconds + overlapped({matrix, bytes / (kBandwidthShare * rates().bandwidth)});
}

double copy_seconds(double bytes_moved) { return kLaunchSeconds + bytes_moved / (kBandwidthShare * rates().bandwidth); }

}  // namespace gradmill::paper::model
