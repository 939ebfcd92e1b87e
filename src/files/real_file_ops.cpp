// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <memory>

#include "files/faulty_file_ops.h"
#include "files/file_ops.h"

namespace gradmill {

FileOps& real_file_ops() {
  static const std::unique_ptr<FaultyFileOps> faulty = [] {
    const char* fault = std::getenv("GRADMILL_FAULT");
    return fault == nullptr ? nullptr : std::make_unique<FaultyFileOps>(posix_file_ops(), parse_fault(fault));
  }();
  return faulty ? static_cast<FileOps&>(*faulty) : posix_file_ops();
}

}  // namespace gradmill
