// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a GGUF file. Makes the files of its tokenizer, opens it as a model and reads every tensor. The effect of
// the resulting tokenizer.json is tested by tokenizer_json_fuzz.
#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "model_files/gguf/gguf_model.h"

namespace {

using namespace gradmill;

void make_tokenizer(const GgufFile& file) {
  try {
    gguf_tokenizer(file);
  } catch (const Error&) {
  }
}

void read_tensors(const GgufModel& model) {
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    if (!model.tensors()[i].readable) continue;
    try {
      model.visit_rows(i, [](int64_t, int64_t, const float*) {});
    } catch (const Error&) {  // for values that are not finite
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    make_tokenizer(GgufFile(bytes, "input"));
    read_tensors(GgufModel(bytes, "input"));
  } catch (const Error&) {
  }
  return 0;
}
