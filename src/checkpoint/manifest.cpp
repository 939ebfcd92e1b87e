// SPDX-License-Identifier: Apache-2.0
// Manifests: writing, parsing of untrusted text, and verification of the files.
#include "checkpoint/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "core/crc32c.h"
#include "files/strict_json.h"

namespace gradmill {
namespace {

using nlohmann::json;
using std::filesystem::path;

constexpr int kFormat = 1;
constexpr size_t kReadBlockBytes = size_t{1} << 20;
constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20;
constexpr std::string_view kUseOlder = "use an older checkpoint";

Error refusal(const path& file, std::string_view what) {
  return data_error(fmt::format("{}: {}", file.string(), what), kUseOlder);
}

// A regular file directly in the folder. Links are refused because they could point anywhere.
class InputFile {
 public:
  explicit InputFile(const path& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor_ < 0) throw failure("open");
    struct stat info {};
    const bool known = ::fstat(descriptor_, &info) == 0;
    if (!known || !S_ISREG(info.st_mode)) {
      ::close(descriptor_);
      throw refusal(path_, "not a regular file");
    }
    bytes_ = static_cast<uint64_t>(info.st_size);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() { ::close(descriptor_); }

  uint64_t bytes() const { return bytes_; }
  // Returns fewer bytes than requested only at the end of the file.
  size_t read(std::span<std::byte> block) {
    size_t done = 0;
    while (done < block.size()) {
      const ssize_t count = ::read(descriptor_, block.data() + done, block.size() - done);
      if (count == 0) break;
      if (count > 0) done += static_cast<size_t>(count);
      if (count < 0 && errno != EINTR) throw failure("read");
    }
    return done;
  }

 private:
  Error failure(const char* action) const {
    return refusal(path_, fmt::format("cannot {}: {}", action, std::generic_category().message(errno)));
  }

  path path_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
};

std::string read_text(const path& path) {
  InputFile file(path);
  if (file.bytes() > kMaxManifestBytes) throw refusal(path, "too large for a manifest");
  std::string text(file.bytes(), '\0');
  text.resize(file.read(std::as_writable_bytes(std::span(text))));
  return text;
}

FileRecord record_of(InputFile& file) {
  std::vector<std::byte> block(kReadBlockBytes);
  FileRecord record;
  for (;;) {
    const size_t count = file.read(block);
    record.crc32c = crc32c(std::span(block).first(count), record.crc32c);
    record.bytes += count;
    if (count < block.size()) return record;
  }
}

std::string hex(uint32_t crc) { return fmt::format("{:08x}", crc); }

FileRecord parse_record(const json& value, const path& file, const std::string& name) {
  const auto bad = [&] { return refusal(file, fmt::format("its entry for {} is damaged", quote_for_message(name))); };
  if (!value.is_object() || !value.contains("bytes") || !value["bytes"].is_number_unsigned() ||
      !value.contains("crc32c") || !value["crc32c"].is_string()) {
    throw bad();
  }
  FileRecord record{value["bytes"].get<uint64_t>(), 0};
  const auto& text = value["crc32c"].get_ref<const std::string&>();
  std::from_chars(text.data(), text.data() + text.size(), record.crc32c, 16);
  if (text != hex(record.crc32c)) throw bad();
  return record;
}

Manifest parse_manifest(const std::string& text, const path& file) {
  const json value = parse_strict_json(text, file.string());
  if (!value.is_object() || !value.contains("format") || !value["format"].is_number_integer()) {
    throw refusal(file, "not a checkpoint's manifest");
  }
  if (value["format"] != kFormat) {
    throw refusal(file, fmt::format("format {}; this gradmill reads format {}", value["format"].dump(), kFormat));
  }
  if (!value.contains("step") || !value["step"].is_number_unsigned() || !value.contains("files") ||
      !value["files"].is_object() || !value.contains("state") || !value["state"].is_object()) {
    throw refusal(file, "not an object of format, step, files and state");
  }
  if (value["step"].get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) throw refusal(file, "its step is too large");
  Manifest manifest{value["step"].get<int64_t>(), {}, value["state"].dump()};
  for (const auto& [name, record] : value["files"].items()) {
    check_file_name(name, file.string());
    manifest.files.emplace(name, parse_record(record, file, name));
  }
  return manifest;
}

}  // namespace

void check_file_name(std::string_view name, std::string_view where) {
  const bool plain = !name.empty() && name.size() <= 255 && name.front() != '.' &&
                     std::none_of(name.begin(), name.end(), [](char letter) {
                       return letter == '/' || letter == '\\' || static_cast<unsigned char>(letter) < 0x20;
                     });
  if (!plain || name == kManifestName || name == kManifestSumName) {
    throw data_error(
        fmt::format("{}: {} is not a valid name for a file of a checkpoint", where, quote_for_message(name)),
        "use a plain name, without folders");
  }
}

std::string manifest_text(const Manifest& manifest) {
  const json state = parse_strict_json(manifest.state_json, "the checkpoint's state");
  if (!state.is_object()) throw data_error("the checkpoint's state is not a JSON object", "pass an object");
  json files = json::object();
  for (const auto& [name, record] : manifest.files) {
    files[name] = {{"bytes", record.bytes}, {"crc32c", hex(record.crc32c)}};
  }
  const json value = {{"format", kFormat}, {"step", manifest.step}, {"files", files}, {"state", state}};
  return value.dump(2) + "\n";
}

std::string manifest_sum(std::string_view text) {
  return fmt::format("{} {} {}\n", hex(crc32c(std::as_bytes(std::span(text)))), text.size(), kManifestName);
}

Manifest read_manifest(const path& folder) {
  const path file = folder / kManifestName;
  const std::string text = read_text(file);
  if (read_text(folder / kManifestSumName) != manifest_sum(text)) {
    throw refusal(file, fmt::format("damaged: it does not match {}", kManifestSumName));
  }
  return parse_manifest(text, file);
}

void verify_files(const path& folder, const Manifest& manifest) {
  for (const auto& [name, expected] : manifest.files) {
    InputFile file(folder / name);
    if (file.bytes() != expected.bytes) {
      throw refusal(folder / name, fmt::format("damaged: {} bytes instead of {}", file.bytes(), expected.bytes));
    }
    if (record_of(file) != expected) throw refusal(folder / name, "damaged: its checksum is wrong");
  }
}

}  // namespace gradmill
