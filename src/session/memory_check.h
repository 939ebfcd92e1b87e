// SPDX-License-Identifier: Apache-2.0
// Refuses a run that does not fit into memory before anything is allocated.
#pragma once

#include "nn/adapter_plan.h"
#include "session/memory_plan.h"
#include "session/session_options.h"

namespace gradmill {

// Throws an out-of-memory error if the plan needs more than `available` bytes. The message says what the memory is for
// and which settings need less. `adapters` is the model's.
void require_memory(const MemoryPlan& plan, const SessionOptions& options, const AdapterPlan& adapters,
                    size_t available);

}  // namespace gradmill
