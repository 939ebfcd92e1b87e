// SPDX-License-Identifier: Apache-2.0
// transformers' classes that gradmill reads and writes, and the head that each has.
#pragma once

#include <string>
#include <string_view>

#include "model_files/model_config.h"

namespace gradmill {

struct Architecture {
  std::string_view name;
  HfFamily kind = HfFamily::llama;
  HeadKind head = HeadKind::none;
  PoolerKind pooler = PoolerKind::none;  // of classifiers
  bool classifier_bias = false;
};

// Null where there is none. Of several classes with one head the first is the one that is written.
const Architecture* find_architecture(HfFamily kind, std::string_view name);
const Architecture* find_architecture(HfFamily kind, HeadKind head);
// For messages.
std::string architecture_names(HfFamily kind);

}  // namespace gradmill
