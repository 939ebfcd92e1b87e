// SPDX-License-Identifier: Apache-2.0
#include "model_files/families/family.h"

#include <algorithm>

namespace gradmill {
namespace {

template <class Matches>
const Architecture* find_if(std::span<const Architecture> architectures, Matches matches) {
  const auto found = std::find_if(architectures.begin(), architectures.end(), matches);
  return found == architectures.end() ? nullptr : &*found;
}

}  // namespace

const Architecture* Family::find_architecture(std::string_view architecture) const {
  return find_if(architectures, [&](const Architecture& entry) { return entry.name == architecture; });
}

const Architecture* Family::find_architecture(HeadKind head) const {
  return find_if(architectures, [&](const Architecture& entry) { return entry.head == head; });
}

std::string Family::architecture_names() const {
  std::string names;
  for (const Architecture& entry : architectures) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

}  // namespace gradmill
