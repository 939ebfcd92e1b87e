// SPDX-License-Identifier: Apache-2.0
// How reductions over rows are cut: by shape alone, so that their bits do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gradmill {

struct RowChunks {
  int64_t rows;  // of one chunk; the last may be shorter
  int64_t count;
};

// At most 64 chunks of at least 16 rows.
inline RowChunks row_chunks(int64_t rows) {
  const int64_t size = std::max<int64_t>(16, (rows + 63) / 64);
  return {size, (rows + size - 1) / size};
}

}  // namespace gradmill
