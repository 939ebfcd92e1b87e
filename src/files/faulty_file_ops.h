// SPDX-License-Identifier: Apache-2.0
// FileOps that fail on purpose: a full disk, a broken disk, or a process that is killed at a chosen system call.
#pragma once

#include <atomic>
#include <cstdint>

#include "files/file_ops.h"

namespace gradmill {

struct Fault {
  enum class Kind : uint8_t {
    none,         // only counts calls
    kill,         // SIGKILL instead of call number `at`; a write first writes half of its bytes
    fail,         // call number `at` fails with `reason`
    fail_writes,  // every write fails with `reason` once `at` bytes have been written, in all files together
  };
  Kind kind = Kind::none;
  int64_t at = 0;  // calls count from 1
  int reason = 0;  // an errno
};

// `kill:N`, `eio:N` (call N fails with EIO) or `enospc:BYTES` (the disk is full after that many bytes).
// Throws usage_error.
Fault parse_fault(std::string_view text);

class FaultyFileOps : public FileOps {
 public:
  explicit FaultyFileOps(FileOps& inner, const Fault& fault = {}) : inner_(inner), fault_(fault) {}

  int64_t num_calls() const { return num_calls_; }
  int64_t bytes_written() const { return bytes_written_; }

  FileHandle create(const std::filesystem::path& path) override;
  size_t write(const FileHandle& file, std::span<const std::byte> bytes) override;
  void sync(const FileHandle& file) override;
  void close(const FileHandle& file) override;
  void make_folder(const std::filesystem::path& path) override;
  void sync_folder(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void link(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove(const std::filesystem::path& path) override;

 private:
  // Counts a call, and injects the fault if this is the chosen call.
  void count(const std::filesystem::path& path, std::string_view action);

  FileOps& inner_;
  Fault fault_;
  std::atomic<int64_t> num_calls_ = 0, bytes_written_ = 0;
};

}  // namespace gradmill
