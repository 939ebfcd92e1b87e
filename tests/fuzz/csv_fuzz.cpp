// SPDX-License-Identifier: Apache-2.0
// Fuzz target: tables of any bytes, in each dialect.
#include "data/records/csv_reader.h"
#include "record_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradmill;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (size < 3) return 0;
  const CsvDialect dialect{data[2] % 2 == 0 ? ',' : '\t', data[2] % 4 < 2};
  // The third byte selects the dialect. It also stays in the text.
  fuzz::check_reader(input, [&](std::unique_ptr<ByteSource> source, const ReadOptions& options, BadRecords& bad) {
    return std::make_unique<CsvReader>(std::move(source), dialect, options, bad);
  });
  return 0;
}
