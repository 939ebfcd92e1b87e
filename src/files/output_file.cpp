// SPDX-License-Identifier: Apache-2.0
// Writes in blocks, and computes the checksum while a block is in the cache.
#include "files/output_file.h"

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
  } catch (const FileError&) {  // the caller has already given up on this file
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
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw usage_error(fmt::format("'{}' is not a regular file", path.string()), "give another name");
  }
  make_folders(parent_folder(path));
  const fs::path temporary = temporary_beside(path);
  try {
    remove_tree(ops, temporary);
    OutputFile file(ops, temporary);
    file.append(content);
    file.finish();
    ops.rename(temporary, path);
  } catch (const FileError& error) {
    try_remove_tree(ops, temporary);
    throw FileError(path, "write", error.reason());  // the message gives the name that the user knows
  }
  ops.sync_folder(parent_folder(path));
}

}  // namespace gradmill
