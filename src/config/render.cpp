// SPDX-License-Identifier: Apache-2.0
#include "config/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "config/suggest.h"

namespace gradmill {
namespace {

// Text needs no quotes if every YAML reader takes it as text. Numbers and words like "off" would change their type.
bool is_plain(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto inner = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '/' || c == '.' || c == '-';
  };
  if (text.empty() || !(letter(text[0]) || text[0] == '/') || !std::all_of(text.begin(), text.end(), inner))
    return false;
  const std::string word = lower_case(text);
  for (const char* reserved : {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}) {
    if (word == reserved) return false;
  }
  return true;
}

std::string yaml_text(const Field& field) {
  const auto* const* text = std::get_if<std::string*>(&field.value);
  if (text == nullptr) return value_text(field);
  if (is_plain(**text)) return **text;
  std::string quoted = "\"";
  for (char c : **text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// The position after the closing quote of the text whose opening quote is at `begin`.
size_t end_of_quotes(const std::string& line, size_t begin) {
  size_t at = begin + 1;
  while (at < line.size() && line[at] != '"') at += line[at] == '\\' ? 2 : 1;
  return std::min(at + 1, line.size());
}

// A path can contain line breaks, which would end the comment.
std::string comment_text(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return text;
}

// Escapes text for a Markdown table.
std::string cell(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (c == '<' || c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Calls `on_section` and, for each of its settings, `on_field`.
template <class OnSection, class OnField>
void walk(const FieldList& list, OnSection on_section, OnField on_field) {
  for (const Section& section : list.sections()) {
    on_section(section);
    for (const Field& field : list.fields()) {
      if (field.section == section.name) on_field(field);
    }
  }
}

constexpr const char* kReferenceIntro = R"(# Configuration

This page is generated from the sources (`src/config/run_config.h`).

A run's settings come in layers. A later layer overrides an earlier one:

1. the defaults below;
2. group files, chosen with `GROUP=NAME`: `experiment=shakespeare_cpu` reads `experiment/shakespeare_cpu.yaml` from the folder
   named by `--config-dir`, from `$GRADMILL_CONFIGS`, from `./configs`, or from the binary, whichever has it first;
3. files, given with `--config FILE`;
4. the command line: `SECTION.KEY=VALUE`.

Files are YAML, with one mapping per section:

```yaml
training:
  batch_size: 32
optimizer:
  lr: 3e-4
```

If there are mistakes, the run does not start, and all of them are reported at once, each with its file and line.
)";

}  // namespace

std::string effective_yaml(const LoadedConfig& loaded, bool with_origins) {
  RunConfig config = loaded.config;
  std::string yaml;
  const auto on_section = [&](const Section& section) { yaml += section.name + ":\n"; };
  walk(fields_of(config), on_section, [&](const Field& field) {
    const std::string line = fmt::format("  {}: {}", field.key, yaml_text(field));
    const auto origin = loaded.origins.find(field.name());
    if (with_origins && origin != loaded.origins.end()) {
      fmt::format_to(std::back_inserter(yaml), "{:<32}  # {}\n", line, comment_text(origin->second));
    } else {
      yaml += line + "\n";
    }
  });
  return yaml;
}

std::map<std::string, std::string> origins_in(const std::string& yaml) {
  constexpr std::string_view kMark = "  # ";
  std::map<std::string, std::string> origins;
  std::istringstream lines(yaml);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line[0] == '#') continue;
    if (line[0] != ' ') {
      section = line.substr(0, colon);
      continue;
    }
    size_t end = colon + 2;
    if (end < line.size() && line[end] == '"') end = end_of_quotes(line, end);
    const size_t mark = line.find(kMark, end);
    if (mark != std::string::npos) {
      origins[section + "." + line.substr(2, colon - 2)] = line.substr(mark + kMark.size());
    }
  }
  return origins;
}

std::string config_help() {
  RunConfig defaults;
  std::string help;
  const auto on_section = [&](const Section& section) {
    help += fmt::format("{}{}: {}\n", help.empty() ? "" : "\n", section.name, section.help);
  };
  walk(fields_of(defaults), on_section, [&](const Field& field) {
    fmt::format_to(std::back_inserter(help), "  {:<34}{}; {}\n", fmt::format("{}={}", field.name(), value_text(field)),
                   field.help, allowed_values(field));
  });
  return help;
}

std::string config_reference() {
  RunConfig defaults;
  std::string page = kReferenceIntro;
  const auto on_section = [&](const Section& section) {
    page += fmt::format("\n## {}\n{}{}.\n\n| key | default | meaning | allowed |\n|---|---|---|---|\n", section.name,
                        static_cast<char>(section.help[0] - 'a' + 'A'), section.help.substr(1));
  };
  walk(fields_of(defaults), on_section, [&](const Field& field) {
    fmt::format_to(std::back_inserter(page), "| `{}` | `{}` | {} | {} |\n", field.key, yaml_text(field),
                   cell(field.help), cell(allowed_values(field)));
  });
  return page;
}

std::vector<ConfigDifference> diff(const RunConfig& a, const RunConfig& b) {
  RunConfig first = a, second = b;
  const FieldList first_list = fields_of(first), second_list = fields_of(second);
  std::vector<ConfigDifference> differences;
  for (size_t i = 0; i < first_list.fields().size(); ++i) {
    const Field& field = first_list.fields()[i];
    ConfigDifference difference{field.name(), value_text(field), value_text(second_list.fields()[i])};
    if (difference.a != difference.b) differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace gradmill
