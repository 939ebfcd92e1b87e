// SPDX-License-Identifier: Apache-2.0
// Fuzz target: lines of any bytes as JSON.
#include "data/records/jsonl_reader.h"
#include "record_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradmill;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  fuzz::check_reader(input, [](std::unique_ptr<ByteSource> source, const ReadOptions& options, BadRecords& bad) {
    return std::make_unique<JsonlReader>(std::move(source), options, bad);
  });
  return 0;
}
