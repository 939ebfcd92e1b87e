// SPDX-License-Identifier: Apache-2.0
// Kernels' names as people read them.
#pragma once

#include <string>

namespace gradmill::paper {

// "norm_forward_kernel<float, 4>": without namespaces, parameters, and what a compiler makes up for unnamed namespaces,
// so that the name of an instantiation stays the same from build to build. tools/kernel_registers.py writes it so, too.
std::string instance_name(const std::string& mangled);

}  // namespace gradmill::paper
