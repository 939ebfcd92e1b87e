// SPDX-License-Identifier: Apache-2.0
// TuningCache: a file of timing results, which saves later runs the timing. Problems with it are never errors: entries
// that cannot be read are timed again.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace gradmill::cuda {

// A text file. The first line identifies the machine. Every other line is one entry: key, tab, value in hex, tab,
// CRC-32C of both.
class TuningCache {
 public:
  using Value = std::array<std::byte, 64>;

  // Reads the entries for `machine` from `file`. A file for another machine counts as empty and is replaced. With an
  // empty path nothing is read or written.
  TuningCache(std::filesystem::path file, std::string machine);

  // Null if unknown.
  const Value* find(const std::string& key) const;
  // `key` must be one line without tabs.
  void put(const std::string& key, const Value& value);
  // If there are new entries, writes the file, including entries that other processes have added in the meantime. A
  // reader sees either the old file or the new one. Returns false if the file cannot be written.
  bool save();

 private:
  void add_entries_of_file();

  std::filesystem::path file_;
  std::string machine_;
  std::map<std::string, Value> entries_;
  bool changed_ = false;
};

}  // namespace gradmill::cuda
