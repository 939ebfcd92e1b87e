// SPDX-License-Identifier: Apache-2.0
// A checkpoint's manifest: `state.json` lists every file with its size and CRC-32C and holds the caller's state;
// `state.crc` is the checksum of `state.json` itself.
//   {"format":1,"step":N,"files":{"model.safetensors":{"bytes":…,"crc32c":"1c9fc391"}},"state":{…}}
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
  std::string state_json;  // an object
};

// Names of files are taken from and given to other programs: a plain name inside the folder, not hidden, and not one of
// the manifest's own. Throws data_error starting with `where`.
void check_file_name(std::string_view name, std::string_view where);

// Throws data_error when state_json is not a JSON object.
std::string manifest_text(const Manifest& manifest);
// The content of `state.crc`.
std::string manifest_sum(std::string_view text);

// Checks the manifest, not yet the files it lists. Throws data_error naming the file.
Manifest read_manifest(const std::filesystem::path& folder);

// Throws data_error unless the folder's files are those of the manifest, bit for bit. Reads in blocks. Files that the
// manifest does not list are none of its business.
void verify_files(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace gradmill
