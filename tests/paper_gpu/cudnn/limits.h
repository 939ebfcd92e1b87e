// SPDX-License-Identifier: Apache-2.0
// The attention that the paper GPU's version of cuDNN supports.
#pragma once

#include <cstdint>
#include <string>

#include "paper_gpu/cudnn/graph.h"

namespace gradmill::paper::dnn {

// 91900 is 9.19.0. PAPER_CUDNN selects another version. With PAPER_CUDNN=off returns 0, and the library does not start.
size_t version();

// Why there is no engine for the graph; empty if there is one.
std::string refusal(const Graph& graph);
int64_t workspace_bytes(const Graph& graph);

}  // namespace gradmill::paper::dnn
