// SPDX-License-Identifier: Apache-2.0
#include "config/unknown_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/suggest.h"

namespace gradmill {
namespace {

// A key that stands in another section: people remember `lr`, not where it is. Empty if there is none.
std::string key_elsewhere(const FieldList& list, const std::string& key) {
  for (const Field& field : list.fields()) {
    if (field.key == key) return fmt::format("; did you mean '{}'?", field.name());
  }
  return "";
}

std::string or_else(std::string text, const std::string& otherwise) { return text.empty() ? otherwise : text; }

}  // namespace

std::vector<std::string> keys_of(const FieldList& list, const std::string& section) {
  std::vector<std::string> keys;
  for (const Field& field : list.fields()) {
    if (field.section == section) keys.push_back(field.key);
  }
  return keys;
}

std::string unknown_section(const FieldList& list, const std::string& section) {
  std::vector<std::string> names;
  for (const Section& known : list.sections()) names.push_back(known.name);
  return fmt::format("unknown section {}; sections: {}{}", quoted_text(section), fmt::join(names, ", "),
                     or_else(key_elsewhere(list, section), did_you_mean(section, names)));
}

std::string unknown_key(const FieldList& list, const std::string& section, const std::string& key) {
  const std::vector<std::string> keys = keys_of(list, section);
  const auto near = closest(key, keys);
  return fmt::format(
      "unknown key {}; keys of {}: {}{}", quoted_text(section + "." + key), section, fmt::join(keys, ", "),
      or_else(key_elsewhere(list, key), near ? fmt::format("; did you mean '{}.{}'?", section, *near) : ""));
}

std::string unknown_group(const FieldList& list, const std::string& group, const std::vector<std::string>& groups) {
  const std::string advice = list.find_section(group) != nullptr
                                 ? fmt::format("; for a setting write {}.KEY=VALUE", group)
                                 : or_else(key_elsewhere(list, group), did_you_mean(group, groups));
  return fmt::format("there is no group {}; groups: {}{}", quoted_text(group), fmt::join(groups, ", "), advice);
}

std::string unknown_group_name(const std::string& group, const std::string& name,
                               const std::vector<std::string>& names) {
  return fmt::format("there is no {} {}; known: {}{}", group, quoted_text(name), fmt::join(names, ", "),
                     did_you_mean(name, names));
}

}  // namespace gradmill
