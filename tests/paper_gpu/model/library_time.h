// SPDX-License-Identifier: Apache-2.0
// Models the time of work done by libraries or by the copy engine.
#pragma once

#include <cstdint>

namespace gradmill::paper::model {

// `count` products of an m x k and a k x n matrix.
struct Product {
  double m = 0, n = 0, k = 0, count = 1;
  uint32_t bits = 16;  // per operand
  bool tf32 = false;   // for operands of 32 bits
  double bytes = 0;    // bytes read and written
};
double product_seconds(const Product& product);

// Attention in cuDNN: `flops` of 16-bit matrix products.
double attention_seconds(double flops, double bytes);

double copy_seconds(double bytes_moved);  // read and written

}  // namespace gradmill::paper::model
