// SPDX-License-Identifier: Apache-2.0
// Ready-made configurations: DIR/GROUP/NAME.yaml in the configuration folders, chosen by `GROUP=NAME`.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace gradmill {

struct GroupFile {
  std::string label;           // "configs/experiment/x.yaml", "embedded experiment/x.yaml"
  std::filesystem::path path;  // empty: embedded
  std::string text;            // empty unless embedded
};

class ConfigGroups {
 public:
  // Looks in `dirs`, then $GRADMILL_CONFIGS, ./configs, and the binary itself; the first that has a name wins.
  // Each folder that was asked for but cannot be listed adds a line to `mistakes`.
  ConfigGroups(const std::vector<std::filesystem::path>& dirs, std::vector<std::string>& mistakes);

  // In alphabetical order.
  std::vector<std::string> groups() const;
  std::vector<std::string> names(const std::string& group) const;
  // Null if there is none.
  const GroupFile* find(const std::string& group, const std::string& name) const;

 private:
  void add_folder(const std::filesystem::path& dir, const std::string& origin, std::vector<std::string>& mistakes);
  void add_embedded();

  std::map<std::string, std::map<std::string, GroupFile>> files_;
};

}  // namespace gradmill
