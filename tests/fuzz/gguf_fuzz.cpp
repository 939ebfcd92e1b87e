// SPDX-License-Identifier: Apache-2.0
// A GGUF file: opens it as a model, reads every tensor, and makes and uses its tokenizer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "hf/gguf_model.h"
#include "tokenizer/tokenizer_file.h"

namespace {

using namespace gradmill;

void read_tensors(const GgufModel& model) {
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    if (!model.tensors()[i].readable) continue;
    try {
      model.visit_rows(i, [](int64_t, int64_t, const float*) {});
    } catch (const Error&) {  // values that are not finite
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const GgufFile file(bytes, "input");
    try {
      read_tensors(GgufModel(bytes, "input"));
    } catch (const Error&) {
    }
    const GgufTokenizer tokenizer = gguf_tokenizer(file);
    if (!tokenizer.json.empty()) parse_tokenizer_json(tokenizer.json, "input")->encode("Hello, w\u00f6rld <s> 12 \xff");
  } catch (const Error&) {
  }
  return 0;
}
