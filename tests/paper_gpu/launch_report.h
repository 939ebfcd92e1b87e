// SPDX-License-Identifier: Apache-2.0
// What launches did, as a file that tools read: PAPER_COUNTS=FILE.
#pragma once

#include "paper_gpu/model/kernel_time.h"
#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/ptx/run.h"

namespace gradmill::paper {

bool reports_launches();
// Adds an object of JSON to the file, in a line of its own. Does nothing where no file is wanted.
// `time`: what the cost model makes of it, where it is asked.
void report_launch(const ptx::Kernel& kernel, const ptx::Launch& launch, const ptx::Counts& counts,
                   const model::KernelTime* time = nullptr);

}  // namespace gradmill::paper
