// SPDX-License-Identifier: Apache-2.0
// TuningCache: a file of what was found out by timing, so that the next run need not. It is never worth an error: what
// cannot be read is timed again.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace gradmill::cuda {

// A text file: a line that names the machine, then a line for each entry: key, tab, value in hex, tab, CRC-32C of both.
class TuningCache {
 public:
  using Value = std::array<std::byte, 64>;

  // Reads the entries that `file` has for `machine`; a file of another machine counts as empty and is replaced. With an
  // empty path nothing is read or written.
  TuningCache(std::filesystem::path file, std::string machine);

  // Null if unknown.
  const Value* find(const std::string& key) const;
  // `key` is one line without tabs.
  void put(const std::string& key, const Value& value);
  // Writes the file if there are new entries, together with what other processes have added to it meanwhile. A reader
  // sees the old file or the new one, never a part. False: it cannot be written.
  bool save();

 private:
  void add_entries_of_file();

  std::filesystem::path file_;
  std::string machine_;
  std::map<std::string, Value> entries_;
  bool changed_ = false;
};

}  // namespace gradmill::cuda
