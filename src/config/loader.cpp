// SPDX-License-Identifier: Apache-2.0
#include "config/loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "config/groups.h"
#include "config/suggest.h"
#include "config/text_file.h"
#include "config/unknown_names.h"
#include "config/yaml_source.h"
#include "core/error.h"

namespace gradmill {
namespace {

using Kind = YamlValue::Kind;

constexpr const char* kCommandLine = "command line";

struct Override {
  std::string key, value;
};

// Names what was found where a setting's value, or a section's keys, belong.
std::string found_text(const YamlValue& value) {
  switch (value.kind) {
    case Kind::none:
      return "empty";
    case Kind::list:
      return "a list";
    case Kind::mapping:
      return "a mapping";
    case Kind::alias:
      return "a YAML alias";
    default:
      return quoted_text(value.text);
  }
}

class Loader {
 public:
  Loader() : list_(fields_of(loaded_.config)) {
    for (const Field& field : list_.fields()) loaded_.origins[field.name()] = "default";
  }

  // Reads every layer and collects its mistakes. Groups in `defaults` come before those the user asked for.
  void apply(const ConfigRequest& request, const std::vector<Override>& defaults) {
    std::vector<Override> groups, settings;
    split(request.overrides, groups, settings);
    for (const Override& group : defaults) {
      const auto is_same = [&](const Override& asked) { return asked.key == group.key; };
      if (std::none_of(groups.begin(), groups.end(), is_same)) groups.insert(groups.begin(), group);
    }
    if (!groups.empty()) apply_groups(groups, request.config_dirs);
    for (const std::filesystem::path& file : request.files) apply_file(file, file.string());
    for (const Override& setting : settings) apply_setting(setting);
  }

  // A task and an adapter bring the defaults of their group, as if the user had asked for it.
  std::vector<Override> implied_groups() const {
    std::vector<Override> groups;
    const AdapterTrainingConfig& adapter = loaded_.config.adapter;
    if (adapter.on()) groups.push_back({"adapter", adapter.path.empty() ? adapter.kind : "folder"});
    if (is_labelled(loaded_.config.data.kind())) groups.push_back({"task", loaded_.config.data.task});
    return groups;
  }

  LoadedConfig finish() {
    check_rules();
    if (mistakes_.size() == 1) throw usage_error(mistakes_.front(), "");
    if (mistakes_.size() > 1) {
      throw usage_error(
          fmt::format("the configuration has {} mistakes:\n  {}", mistakes_.size(), fmt::join(mistakes_, "\n  ")), "");
    }
    return loaded_;
  }

 private:
  void mistake(const std::string& origin, const std::string& text) { mistakes_.push_back(origin + ": " + text); }

  // A key with a dot names a setting, any other key a group.
  void split(const std::vector<std::string>& overrides, std::vector<Override>& groups,
             std::vector<Override>& settings) {
    for (const std::string& text : overrides) {
      const size_t equals = text.find('=');
      if (equals == std::string::npos || equals == 0) {
        mistake(kCommandLine, fmt::format("{} is not SECTION.KEY=VALUE or GROUP=NAME", quoted_text(text)));
        continue;
      }
      Override change{text.substr(0, equals), text.substr(equals + 1)};
      if (change.key.find('.') != std::string::npos) {
        settings.push_back(std::move(change));
      } else {
        std::erase_if(groups, [&](const Override& earlier) { return earlier.key == change.key; });
        groups.push_back(std::move(change));
      }
    }
  }

  void apply_groups(const std::vector<Override>& choices, const std::vector<std::filesystem::path>& dirs) {
    const ConfigGroups groups(dirs, mistakes_);
    for (const auto& [group, name] : choices) {
      if (const GroupFile* file = groups.find(group, name)) {
        file->path.empty() ? apply_text(file->text, file->label) : apply_file(file->path, file->label);
      } else if (const auto names = groups.names(group); !names.empty()) {
        mistake(kCommandLine, unknown_group_name(group, name, names));
      } else {
        mistake(kCommandLine, unknown_group(list_, group, groups.groups()));
      }
    }
  }

  void apply_file(const std::filesystem::path& path, const std::string& label) {
    std::string text;
    const std::string problem = read_text_file(path, text);
    if (problem.empty()) return apply_text(text, label);
    mistake(label, fmt::format("cannot be read: {}; name a readable file", problem));
  }

  void apply_text(const std::string& text, const std::string& label) {
    YamlDocument document = read_yaml(text);
    const auto note = [&](int line, std::string problem) {
      if (!problem.empty()) document.mistakes.push_back({line, std::move(problem)});
    };
    for (const YamlSection& section : document.sections) {
      note(section.line, section_problem(section));
      if (list_.find_section(section.name) == nullptr) continue;  // its keys would only repeat the mistake
      for (const YamlValue& value : section.values) note(value.line, apply_value(section.name, value, label));
    }
    std::stable_sort(document.mistakes.begin(), document.mistakes.end(),
                     [](const YamlMistake& a, const YamlMistake& b) { return a.line < b.line; });
    for (const YamlMistake& found : document.mistakes) mistake(fmt::format("{}:{}", label, found.line), found.text);
  }

  std::string section_problem(const YamlSection& section) const {
    if (list_.find_section(section.name) == nullptr) return unknown_section(list_, section.name);
    if (section.kind == Kind::mapping || section.kind == Kind::none) return "";
    return fmt::format("section {} is {}; it must hold keys: {}", section.name, found_text(section),
                       fmt::join(keys_of(list_, section.name), ", "));
  }

  std::string apply_value(const std::string& section, const YamlValue& value, const std::string& label) {
    const Field* field = list_.find(section, value.name);
    if (field == nullptr) return unknown_key(list_, section, value.name);
    if (value.kind == Kind::plain || value.kind == Kind::quoted) {
      return set(*field, value.text, value.kind == Kind::quoted, fmt::format("{}:{}", label, value.line));
    }
    bad_.insert(field->name());
    return fmt::format("{} is {}; it must be {}", field->name(), found_text(value), allowed_values(*field));
  }

  void apply_setting(const Override& setting) {
    const size_t dot = setting.key.find('.');
    const std::string section = setting.key.substr(0, dot), key = setting.key.substr(dot + 1);
    const Field* field = list_.find(section, key);
    const std::string problem = field != nullptr ? set(*field, setting.value, false, kCommandLine)
                                : list_.find_section(section) != nullptr ? unknown_key(list_, section, key)
                                                                         : unknown_section(list_, section);
    if (!problem.empty()) mistake(kCommandLine, problem);
  }

  std::string set(const Field& field, const std::string& value, bool quoted, const std::string& origin) {
    std::string problem = set_value(field, value, quoted);
    if (problem.empty()) {
      loaded_.origins[field.name()] = origin;
    } else {
      bad_.insert(field.name());
    }
    return problem;
  }

  // Skips rules about settings that are wrong by themselves: they have been reported already.
  void check_rules() {
    for (const BrokenRule& broken : broken_rules(loaded_.config)) {
      std::vector<std::string> values;
      for (const std::string& key : broken.keys) {
        if (!bad_.contains(key)) {
          values.push_back(fmt::format("{} is {} ({})", key, value_text(*list_.find(key)), loaded_.origins[key]));
        }
      }
      if (values.size() == broken.keys.size())
        mistakes_.push_back(fmt::format("{}; {}", fmt::join(values, ", "), broken.rule));
    }
  }

  LoadedConfig loaded_;
  FieldList list_;  // points into loaded_
  std::vector<std::string> mistakes_;
  std::set<std::string> bad_;  // settings with a value that is not allowed
};

}  // namespace

LoadedConfig load_config(const ConfigRequest& request) {
  Loader first;
  first.apply(request, {});
  const std::vector<Override> implied = first.implied_groups();
  if (implied.empty()) return first.finish();
  Loader again;
  again.apply(request, implied);
  return again.finish();
}

}  // namespace gradmill
