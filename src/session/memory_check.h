// SPDX-License-Identifier: Apache-2.0
// A run that cannot fit is refused before anything is allocated.
#pragma once

#include "nn/adapter_plan.h"
#include "session/memory_plan.h"
#include "session/session_options.h"

namespace gradmill {

// Throws an out-of-memory error where the plan needs more than `available` bytes: what the memory is for, and settings
// that need less. `adapters` is the model's.
void require_memory(const MemoryPlan& plan, const SessionOptions& options, const AdapterPlan& adapters,
                    size_t available);

}  // namespace gradmill
