// SPDX-License-Identifier: Apache-2.0
// For which GPUs a binary has code.
#pragma once

#include <string>
#include <string_view>

namespace gradmill::cuda {

// `targets` as CMake lists architectures: "75-real,90a-real,90-virtual".

// "7.5, 9.0 and newer".
std::string describe_targets(std::string_view targets);
// Why code for `targets` does not run on a GPU of this compute capability, and what helps; empty: it does.
std::string why_no_code(std::string_view targets, int compute_capability);

}  // namespace gradmill::cuda
