// SPDX-License-Identifier: Apache-2.0
// Writing in blocks, the checksum taken while a block is in the cache.
#include "checkpoint/output_file.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/crc32c.h"

namespace gradmill {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

}  // namespace

OutputFile::~OutputFile() {
  if (file_.descriptor < 0) return;
  try {
    ops_.close(file_);
  } catch (const FileError&) {  // the file is given up anyway
  }
}

void OutputFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::span<const std::byte> block = bytes.first(std::min(bytes.size(), kBlockBytes));
    bytes = bytes.subspan(block.size());
    record_.crc32c = crc32c(block, record_.crc32c);
    record_.bytes += block.size();
    while (!block.empty()) block = block.subspan(ops_.write(file_, block));
  }
}

FileRecord OutputFile::finish() {
  ops_.sync(file_);
  ops_.close(FileHandle{std::exchange(file_.descriptor, -1), file_.path});
  return record_;
}

void replace_file(const std::filesystem::path& path, std::string_view content, FileOps& ops) {
  const std::filesystem::path temporary =
      path.parent_path() / fmt::format(".tmp-{}-{}", path.filename().string(), ::getpid());
  remove_tree(ops, temporary);
  try {
    OutputFile file(ops, temporary);
    file.append(content);
    file.finish();
    ops.rename(temporary, path);
  } catch (const FileError&) {
    try_remove_tree(ops, temporary);
    throw;
  }
  ops.sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace gradmill
