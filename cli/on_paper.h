// SPDX-License-Identifier: Apache-2.0
// Runs a command on a GPU that exists only on paper, with a program that developers build: see docs/paper-gpu.md.
#pragma once

#include <string>
#include <vector>

namespace gradmill::cli {

// Runs `gradmill ARGS` on a paper GPU whose clock shows modelled times. Does not return; throws if that program is not
// found or cannot be started.
[[noreturn]] void run_on_paper(const std::string& gpu, const std::vector<std::string>& args);

}  // namespace gradmill::cli
