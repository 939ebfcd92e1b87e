// SPDX-License-Identifier: Apache-2.0
// A text file of a checkpoint, stored next to its tensors.
#pragma once

#include <string>

namespace gradmill {

struct CheckpointText {
  std::string name;  // for example "config.json"
  std::string content;
};

}  // namespace gradmill
