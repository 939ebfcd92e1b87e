// SPDX-License-Identifier: Apache-2.0
// The commit and settings this binary was built from.
#pragma once

namespace gradmill {

struct BuildInfo {
  const char* version;
  const char* git_hash;  // ends in "-dirty" when files differed from the commit; "unknown" outside a checkout
  const char* compiler;
  const char* build_type;
};
const BuildInfo& build_info();

}  // namespace gradmill
