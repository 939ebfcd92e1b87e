// SPDX-License-Identifier: Apache-2.0
#include "config/groups.h"

#include <fmt/format.h>

#include <cstdlib>

#include "config/embedded_configs.h"

namespace gradmill {
namespace fs = std::filesystem;

ConfigGroups::ConfigGroups(const std::vector<fs::path>& dirs, std::vector<std::string>& mistakes) {
  for (const fs::path& dir : dirs) add_folder(dir, "command line", mistakes);
  if (const char* dir = std::getenv("GRADMILL_CONFIGS"); dir != nullptr && *dir != '\0') {
    add_folder(dir, "$GRADMILL_CONFIGS", mistakes);
  }
  std::error_code ignored;
  if (fs::is_directory("configs", ignored)) add_folder("configs", "./configs", mistakes);
  add_embedded();
}

void ConfigGroups::add_folder(const fs::path& dir, const std::string& origin, std::vector<std::string>& mistakes) {
  try {
    for (const fs::directory_entry& group : fs::directory_iterator(dir)) {
      if (!group.is_directory()) continue;
      for (const fs::directory_entry& file : fs::directory_iterator(group.path())) {
        if (file.path().extension() != ".yaml" || file.is_directory()) continue;
        files_[group.path().filename()].try_emplace(file.path().stem(), GroupFile{file.path(), file.path(), ""});
      }
    }
  } catch (const fs::filesystem_error& error) {
    mistakes.push_back(fmt::format("{}: cannot list the configuration folder '{}': {}; name a readable one", origin,
                                   dir.string(), error.code().message()));
  }
}

void ConfigGroups::add_embedded() {
  for (const EmbeddedConfig& config : embedded_configs()) {
    const fs::path path = config.path;
    files_[path.parent_path()].try_emplace(path.stem(),
                                           GroupFile{"embedded " + path.string(), "", std::string(config.text)});
  }
}

std::vector<std::string> ConfigGroups::groups() const {
  std::vector<std::string> groups;
  for (const auto& [group, files] : files_) groups.push_back(group);
  return groups;
}

std::vector<std::string> ConfigGroups::names(const std::string& group) const {
  std::vector<std::string> names;
  if (const auto found = files_.find(group); found != files_.end()) {
    for (const auto& [name, file] : found->second) names.push_back(name);
  }
  return names;
}

const GroupFile* ConfigGroups::find(const std::string& group, const std::string& name) const {
  const auto files = files_.find(group);
  if (files == files_.end()) return nullptr;
  const auto file = files->second.find(name);
  return file == files->second.end() ? nullptr : &file->second;
}

}  // namespace gradmill
