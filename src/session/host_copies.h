// SPDX-License-Identifier: Apache-2.0
// Copies of a device's tensors in host memory, where checkpoints read and write them.
#pragma once

#include <span>

#include "core/storage.h"
#include "optim/optimizer.h"

namespace gradmill {

// Points the views at host memory, which the result owns: with the tensors' values, or zeros.
Storage move_to_host(ExecContext& ctx, std::span<StateTensor> tensors, bool with_values);
// The other way: copies the values of `host` to the device's tensors of the same names.
void copy_from_host(ExecContext& ctx, std::span<const StateTensor> device, std::span<const StateTensor> host);

}  // namespace gradmill
