// SPDX-License-Identifier: Apache-2.0
// The second half of a reduction over rows: chunks of rows have a sum each, and here they are added up. Many such
// reductions in one call: the data is small, and on a GPU a call costs more than the sums.
#pragma once

#include <span>

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

// out = the sum of partials' rows, in an order that depends on their number alone, + beta * out.
struct PartialSum {
  TensorView partials;  // (count, size) fp32
  TensorView out;       // (size) fp32; undefined: nothing to do
  float beta = 0;
};
void add_partial_sums(ExecContext& ctx, std::span<const PartialSum> sums);

// Within other ops.
template <Device D>
void add_partial_sums(ExecContext& ctx, std::span<const PartialSum> sums);
template <>
void add_partial_sums<Device::cpu>(ExecContext& ctx, std::span<const PartialSum> sums);
template <>
void add_partial_sums<Device::cuda>(ExecContext& ctx, std::span<const PartialSum> sums);

}  // namespace gradmill
