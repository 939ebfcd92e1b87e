// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "paper_gpu/cudnn/graph.h"

namespace gradmill::paper::dnn {

// The seconds that a graph takes according to the cost model.
double duration_of(const Graph& graph);

}  // namespace gradmill::paper::dnn
