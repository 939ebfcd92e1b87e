// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a safetensors file. Opens it and, if it is valid, reads every byte of every tensor, raw and as a view.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "model_files/float_rows.h"

namespace {

using namespace gradmill;

// A file in memory with a name.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("input", 0)) {}
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void fill(const uint8_t* data, size_t size) const {
    if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, data, size, 0) != static_cast<ssize_t>(size)) {
      std::abort();
    }
  }

 private:
  int descriptor_;
};

void use(const SafeTensors& file) {
  unsigned sum = 0;
  for (size_t i = 0; i < file.names().size(); ++i) {
    const SafeTensors::Stored& stored = file.stored(i);
    for (const std::byte byte : stored.bytes) sum += static_cast<unsigned>(byte);
    if (const auto type = float_type(stored.dtype)) {
      std::vector<float> values(stored.bytes.size() / bytes_of(*type));
      widen(*type, stored.bytes, values.data());
    }
    try {
      const TensorView view = file.at(file.names()[i]);
      const auto* bytes = static_cast<const unsigned char*>(view.data);
      for (size_t at = 0; at < view.bytes(); ++at) sum += bytes[at];
    } catch (const Error&) {
    }
  }
  volatile unsigned sink = sum;
  (void)sink;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  file.fill(data, size);
  try {
    use(SafeTensors(file.path()));
  } catch (const Error&) {
  }
  return 0;
}
