// SPDX-License-Identifier: Apache-2.0
// Fault injection for tests.
#include "files/faulty_file_ops.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>

namespace gradmill {

using std::filesystem::path;

Fault parse_fault(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view kind = text.substr(0, colon), number = text.substr(std::min(colon + 1, text.size()));
  Fault fault;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), fault.at);
  const bool is_number = error == std::errc() && end == number.data() + number.size() && fault.at >= 0;
  if (is_number && kind == "kill") {
    fault.kind = Fault::Kind::kill;
  } else if (is_number && kind == "eio") {
    fault.kind = Fault::Kind::fail;
    fault.reason = EIO;
  } else if (is_number && kind == "enospc") {
    fault.kind = Fault::Kind::fail_writes;
    fault.reason = ENOSPC;
  } else {
    throw usage_error(fmt::format("GRADMILL_FAULT: '{}' is not a fault", text), "use kill:N, eio:N or enospc:BYTES");
  }
  return fault;
}

void FaultyFileOps::count(const path& path, std::string_view action) {
  if (++num_calls_ != fault_.at) return;
  if (fault_.kind == Fault::Kind::kill) ::kill(::getpid(), SIGKILL);
  if (fault_.kind == Fault::Kind::fail) throw FileError(path, action, fault_.reason);
}

FileHandle FaultyFileOps::create(const path& path) {
  count(path, "create");
  return inner_.create(path);
}

size_t FaultyFileOps::write(const FileHandle& file, std::span<const std::byte> bytes) {
  if (fault_.kind == Fault::Kind::kill && num_calls_ + 1 == fault_.at && bytes.size() > 1) {
    inner_.write(file, bytes.first(bytes.size() / 2));
  }
  count(file.path, "write");
  if (fault_.kind == Fault::Kind::fail_writes) {
    const int64_t room = fault_.at - bytes_written_;
    if (room <= 0) throw FileError(file.path, "write", fault_.reason);
    bytes = bytes.first(std::min(bytes.size(), static_cast<size_t>(room)));
  }
  const size_t written = inner_.write(file, bytes);
  bytes_written_ += static_cast<int64_t>(written);
  return written;
}

void FaultyFileOps::sync(const FileHandle& file) {
  count(file.path, "write to disk");
  inner_.sync(file);
}

void FaultyFileOps::close(const FileHandle& file) {
  inner_.close(file);  // Linux closes the file even when it then reports an error
  count(file.path, "close");
}

void FaultyFileOps::make_folder(const path& path) {
  count(path, "create");
  inner_.make_folder(path);
}

void FaultyFileOps::sync_folder(const path& path) {
  count(path, "write to disk");
  inner_.sync_folder(path);
}

void FaultyFileOps::rename(const path& from, const path& to) {
  count(from, "rename");
  inner_.rename(from, to);
}

void FaultyFileOps::link(const path& from, const path& to) {
  count(from, "link");
  inner_.link(from, to);
}

void FaultyFileOps::remove(const path& path) {
  count(path, "remove");
  inner_.remove(path);
}

}  // namespace gradmill
