// SPDX-License-Identifier: Apache-2.0
// Copies values between host and device outside of steps: at start-up, for checkpoints and for samples. Waits for
// pending work on both sides before it returns. Must not be called in a dry run.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

// `to` and `from` must be contiguous tensors on the context's device.
void copy_to_device(ExecContext& ctx, const TensorView& to, const void* host);
void copy_to_host(ExecContext& ctx, void* host, const TensorView& from);
void copy_on_device(ExecContext& ctx, const TensorView& to, const TensorView& from);
void fill_zero(ExecContext& ctx, const TensorView& to);

template <Device D>
void copy_bytes(ExecContext& ctx, void* to, const void* from, size_t bytes);
template <Device D>
void zero_bytes(ExecContext& ctx, void* to, size_t bytes);

}  // namespace gradmill
