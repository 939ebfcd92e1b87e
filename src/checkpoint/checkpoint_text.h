// SPDX-License-Identifier: Apache-2.0
// A text file that a checkpoint keeps beside its tensors.
#pragma once

#include <string>

namespace gradmill {

struct CheckpointText {
  std::string name;  // "config.json"
  std::string content;
};

}  // namespace gradmill
