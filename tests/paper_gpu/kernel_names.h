// SPDX-License-Identifier: Apache-2.0
// The readable names of kernels.
#pragma once

#include <string>

namespace gradmill::paper {

// "norm_forward_kernel<float, 4>": without namespaces, parameters and compiler-generated names, so that the name of an
// instantiation is the same in every build. tools/kernel_registers.py uses the same form.
std::string instance_name(const std::string& mangled);

}  // namespace gradmill::paper
