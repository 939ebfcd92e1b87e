// SPDX-License-Identifier: Apache-2.0
// Parses a kernel's text to instructions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "paper_gpu/ptx/kernel.h"

namespace gradmill::paper::ptx {

// `text` reaches from the parameters to the closing brace.
std::unique_ptr<Kernel> parse_kernel(Module& module, std::string name, std::string_view text);

}  // namespace gradmill::paper::ptx
