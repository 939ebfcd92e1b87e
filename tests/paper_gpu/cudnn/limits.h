// SPDX-License-Identifier: Apache-2.0
// What cuDNN of the version on paper does for attention on the GPU on paper.
#pragma once

#include <cstdint>
#include <string>

#include "paper_gpu/cudnn/graph.h"

namespace gradmill::paper::dnn {

// 91900 is 9.19.0; PAPER_CUDNN may name another. 0 with PAPER_CUDNN=off, when the library does not start.
size_t version();

// Why there is no engine for the graph; empty if there is one.
std::string refusal(const Graph& graph);
int64_t workspace_bytes(const Graph& graph);

}  // namespace gradmill::paper::dnn
