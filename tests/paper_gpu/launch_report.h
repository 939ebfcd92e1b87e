// SPDX-License-Identifier: Apache-2.0
// Reports launches to a file for tools: PAPER_COUNTS=FILE.
#pragma once

#include "paper_gpu/model/kernel_time.h"
#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/ptx/run.h"

namespace gradmill::paper {

bool reports_launches();
// Appends one JSON object on a line of its own. Does nothing if no file is requested. `time`: the result of the cost
// model, if available.
void report_launch(const ptx::Kernel& kernel, const ptx::Launch& launch, const ptx::Counts& counts,
                   const model::KernelTime* time = nullptr);

}  // namespace gradmill::paper
