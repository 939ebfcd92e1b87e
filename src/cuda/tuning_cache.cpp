// SPDX-License-Identifier: Apache-2.0
#include "cuda/tuning_cache.h"

#include <cassert>
#include <charconv>
#include <fstream>
#include <span>

#include "core/crc32c.h"
#include "files/output_file.h"

namespace gradmill::cuda {
namespace {

std::string first_line(const std::string& machine) { return "gradmill tuning cache 1: " + machine; }

std::string to_hex(const TuningCache::Value& value) {
  std::string text;
  for (std::byte byte : value) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

std::optional<TuningCache::Value> from_hex(std::string_view text) {
  TuningCache::Value value{};
  if (text.size() != 2 * value.size()) return {};
  for (size_t i = 0; i < value.size(); ++i) {
    uint8_t byte = 0;
    const char *begin = text.data() + 2 * i, *end = begin + 2;
    const auto [stop, error] = std::from_chars(begin, end, byte, 16);
    if (error != std::errc{} || stop != end) return {};
    value[i] = std::byte{byte};
  }
  return value;
}

std::string to_line(const std::string& key, const TuningCache::Value& value) {
  const std::string line = key + '\t' + to_hex(value);
  return fmt::format("{}\t{:08x}", line, crc32c(std::as_bytes(std::span(line))));
}

struct Entry {
  std::string key;
  TuningCache::Value value;
};

std::optional<Entry> from_line(const std::string& line) {
  const size_t tab = line.find('\t');
  if (tab == std::string::npos) return {};
  const size_t last = line.rfind('\t');
  const std::optional<TuningCache::Value> value = from_hex(std::string_view(line).substr(tab + 1, last - tab - 1));
  if (last == tab || !value) return {};
  const Entry entry{line.substr(0, tab), *value};
  if (to_line(entry.key, entry.value) != line) return {};
  return entry;
}

}  // namespace

TuningCache::TuningCache(std::filesystem::path file, std::string machine)
    : file_(std::move(file)), machine_(std::move(machine)) {
  add_entries_of_file();
}

const TuningCache::Value* TuningCache::find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

void TuningCache::put(const std::string& key, const Value& value) {
  assert(key.find_first_of("\t\n") == std::string::npos);
  entries_[key] = value;
  changed_ = true;
}

bool TuningCache::save() {
  if (!changed_ || file_.empty()) return true;
  add_entries_of_file();
  std::string text = first_line(machine_) + '\n';
  for (const auto& [key, value] : entries_) text += to_line(key, value) + '\n';
  try {
    replace_file(file_, text);
  } catch (const Error&) {
    return false;
  }
  changed_ = false;
  return true;
}

void TuningCache::add_entries_of_file() {
  if (file_.empty()) return;
  std::ifstream in(file_);
  std::string line;
  if (!std::getline(in, line) || line != first_line(machine_)) return;
  while (std::getline(in, line)) {
    if (std::optional<Entry> entry = from_line(line)) entries_.emplace(std::move(entry->key), entry->value);
  }
}

}  // namespace gradmill::cuda
