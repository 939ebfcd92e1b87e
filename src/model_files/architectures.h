// SPDX-License-Identifier: Apache-2.0
// The classes of transformers that gradmill reads and writes, and the head of each.
#pragma once

#include <string>
#include <string_view>

#include "model_files/model_config.h"

namespace gradmill {

struct Architecture {
  std::string_view name;
  HfFamily kind = HfFamily::llama;
  HeadKind head = HeadKind::none;
  PoolerKind pooler = PoolerKind::none;  // for classifiers
  bool classifier_bias = false;
};

// Null if there is none. If several classes have the same head, the first is the one that is written.
const Architecture* find_architecture(HfFamily kind, std::string_view name);
const Architecture* find_architecture(HfFamily kind, HeadKind head);
// For messages.
std::string architecture_names(HfFamily kind);

}  // namespace gradmill
