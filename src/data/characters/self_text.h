// SPDX-License-Identifier: Apache-2.0
// The repository's own sources and documents, packed into the binary at build time (cmake/pack_self.cmake).
#pragma once

#include <string_view>

namespace gradmill {

// Files in the order of their paths, each after a line "==> path <==".
std::string_view self_text();

}  // namespace gradmill
