// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "paper_gpu/cudnn/graph.h"

namespace gradmill::paper::dnn {

// Appends the operations of a CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR and their tensors in the given order. Throws
// std::runtime_error.
void read_operations(const Descriptor& operation_graph, Graph& graph);

}  // namespace gradmill::paper::dnn
