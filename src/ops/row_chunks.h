// SPDX-License-Identifier: Apache-2.0
// How reductions over rows are divided: by shape and device alone, so that their bits do not depend on the number of
// threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/device_spec.h"

namespace gradmill {

struct RowChunks {
  int64_t rows;  // per chunk; the last may be shorter
  int64_t count;
};

// At most `most` chunks of at least 16 rows.
inline RowChunks row_chunks(int64_t rows, int64_t most = 64) {
  const int64_t size = std::max<int64_t>(16, (rows + most - 1) / most);
  return {size, (rows + size - 1) / size};
}

// On a GPU, `blocks` thread blocks side by side process a chunk, and each multiprocessor gets `per_unit` blocks.
inline RowChunks row_chunks(int64_t rows, const DeviceSpec& device, int64_t per_unit, int64_t blocks) {
  if (device.kind == DeviceKind::cpu) return row_chunks(rows);
  return row_chunks(rows, std::max<int64_t>(1, (per_unit * device.num_units + blocks - 1) / blocks));
}

}  // namespace gradmill
