// SPDX-License-Identifier: Apache-2.0
// Fuzz target: config.json. Reads it and, if it is valid, writes it again, adds a classifier's head and reads the
// result.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "model_files/model_config.h"

namespace {

using namespace gradmill;

void check(bool holds) {
  if (!holds) std::abort();
}

void use(HfConfig config) {
  const TransformerSpec& spec = config.spec;
  check(spec.layers > 0 && spec.head_dim > 0 && spec.heads % spec.kv_heads == 0);
  check(spec.local_layers.empty() || std::ssize(spec.local_layers) == spec.layers);
  check(read_model_config(write_model_config(config, DType::bf16), "written").spec.width == spec.width);
  set_head(config, HeadKind::classifier, {"a", "b", "c"});
  const HfConfig classifier = read_model_config(write_model_config(config, DType::fp32), "written");
  check(classifier.labels == config.labels && classifier.spec.labels == 3);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::optional<HfConfig> config;
  try {
    config = read_model_config({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const Error&) {
    return 0;
  }
  use(std::move(*config));
  return 0;
}
