// SPDX-License-Identifier: Apache-2.0
// Commands that a program of the developers' runs on a GPU that is only on paper: see docs/paper-gpu.md.
#pragma once

#include <string>
#include <vector>

namespace gradmill::cli {

// Runs `gradmill ARGS` on a paper GPU whose clock tells modelled times. Returns only by throwing, where the program
// that does it is not found or cannot be started.
[[noreturn]] void run_on_paper(const std::string& gpu, const std::vector<std::string>& args);

}  // namespace gradmill::cli
