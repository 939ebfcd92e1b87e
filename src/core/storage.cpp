// SPDX-License-Identifier: Apache-2.0
// Host memory for slabs.
#include "core/storage.h"

#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace gradmill {

void Storage::Free::operator()(std::byte* pointer) const { std::free(pointer); }

Storage::Storage(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, align_up(bytes))));
  if (!memory_) {
    throw Error(ExitCode::out_of_memory,
                fmt::format("cannot allocate {:.1f} MiB of host memory", double(bytes) / (1 << 20)),
                "use a smaller batch, context or model, or a leaner save policy");
  }
  std::memset(memory_.get(), 0, bytes);
}

}  // namespace gradmill
