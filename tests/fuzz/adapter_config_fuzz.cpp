// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as an adapter_config.json. Errors are allowed, but no crash, leak or runaway. Accepted
// configurations must survive being written and read again, and their expressions must match a long name in limited
// time.
// adapter_config_fuzz -dict=tests/fuzz/adapter_config.dict -max_len=4096 -runs=1000000 CORPUS
// tests/fuzz/seeds/adapter_config
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "adapters/adapter_config.h"
#include "adapters/module_pattern.h"
#include "core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradmill;
  try {
    const AdapterConfig config =
        parse_adapter_config(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    const std::string text = adapter_config_json(config, false);
    if (adapter_config_json(parse_adapter_config(text, "again"), false) != text) __builtin_trap();
    const std::string name = "base_model.model.model.layers.11.self_attn.q_proj";
    if (!config.targets.expression.empty()) ModulePattern(config.targets.expression, "fuzz").matches(name);
    for (const auto& [pattern, rank] : config.rank_pattern) ModulePattern(pattern, "fuzz").matches(name);
  } catch (const Error&) {
  }
  return 0;
}
