// SPDX-License-Identifier: Apache-2.0
// A checkpoint's manifest. `state.json` lists every file with its size and CRC-32C, and contains the caller's state.
// `state.crc` is the checksum of `state.json` itself.
// {"format":1,"step":N,"files":{"model.safetensors":{"bytes":…,"crc32c":"1c9fc391"}},"state":{…}}
#pragma once

#include <map>
#include <string>

#include "files/output_file.h"

namespace gradmill {

inline constexpr const char* kManifestName = "state.json";
inline constexpr const char* kManifestSumName = "state.crc";

struct Manifest {
  int64_t step = 0;
  std::map<std::string, FileRecord> files;
  std::string state_json;  // must be a JSON object
};

// File names are exchanged with other programs, so they are checked: a name must have no folders, must not be hidden,
// and must differ from the manifest's own files. Throws a data_error that starts with `where`.
void check_file_name(std::string_view name, std::string_view where);

// Throws a data_error if state_json is not a JSON object.
std::string manifest_text(const Manifest& manifest);
// The content of `state.crc`.
std::string manifest_sum(std::string_view text);

// Checks the manifest, but not the files that it lists. Throws a data_error that names the bad file.
Manifest read_manifest(const std::filesystem::path& folder);

// Throws a data_error unless the folder's files match the manifest bit for bit. Reads them in blocks. Files that the
// manifest does not list are ignored.
void verify_files(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace gradmill
