// SPDX-License-Identifier: Apache-2.0
// The repository's configs/, packed into the binary when it is built.
#pragma once

#include <span>
#include <string_view>

namespace gradmill {

struct EmbeddedConfig {
  std::string_view path;  // "experiment/shakespeare_cpu.yaml"
  std::string_view text;
};

std::span<const EmbeddedConfig> embedded_configs();

}  // namespace gradmill
