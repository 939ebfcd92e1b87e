// SPDX-License-Identifier: Apache-2.0
// A YAML file as sections of keys, each with its line. It knows YAML, not which settings exist.
#pragma once

#include <string>
#include <vector>

namespace gradmill {

struct YamlValue {
  enum class Kind { none, plain, quoted, list, mapping, alias };
  std::string name;
  int line = 0;  // of the name, from 1
  Kind kind = Kind::none;
  std::string text;  // of plain and quoted values
};

struct YamlSection : YamlValue {
  std::vector<YamlValue> values;  // of a mapping
};

struct YamlMistake {
  int line = 0;
  std::string text;
};

struct YamlDocument {
  std::vector<YamlSection> sections;
  std::vector<YamlMistake> mistakes;
};

// Never throws for what the text holds. After a syntax error the rest of the text is not read; what stands before it
// is.
YamlDocument read_yaml(const std::string& text);

}  // namespace gradmill
