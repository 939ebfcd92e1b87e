// SPDX-License-Identifier: Apache-2.0
// The second half of a reduction over rows: adds the sums of the chunks of rows. One call handles many such reductions,
// because the data is small and a call on a GPU costs more than the sums.
#pragma once

#include <span>

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

// out = the sum of the rows of `partials`, in an order that depends only on their number, + beta * out.
struct PartialSum {
  TensorView partials;  // (count, size) fp32
  TensorView out;       // (size) fp32; undefined: nothing to do
  float beta = 0;
};
void add_partial_sums(ExecContext& ctx, std::span<const PartialSum> sums);

// For use within other ops.
template <Device D>
void add_partial_sums(ExecContext& ctx, std::span<const PartialSum> sums);
template <>
void add_partial_sums<Device::cpu>(ExecContext& ctx, std::span<const PartialSum> sums);
template <>
void add_partial_sums<Device::cuda>(ExecContext& ctx, std::span<const PartialSum> sums);

}  // namespace gradmill
