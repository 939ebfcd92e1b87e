// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "paper_gpu/cudnn/graph.h"

namespace gradmill::paper::dnn {

// Seconds that a graph takes by the cost model.
double duration_of(const Graph& graph);

}  // namespace gradmill::paper::dnn
