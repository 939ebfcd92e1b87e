// SPDX-License-Identifier: Apache-2.0
// The GPUs that a binary has code for.
#pragma once

#include <string>
#include <string_view>

namespace gradmill::cuda {

// `targets` is a CMake list of architectures: "75-real,90a-real,90-virtual".

// Returns, for example, "7.5, 9.0 and newer".
std::string describe_targets(std::string_view targets);
// Why code for `targets` does not run on a GPU of this compute capability, and how to fix it. Empty if it does run.
std::string why_no_code(std::string_view targets, int compute_capability);

}  // namespace gradmill::cuda
