// SPDX-License-Identifier: Apache-2.0
// A YAML file as sections of keys, each with its line number. It does not know which settings exist.
#pragma once

#include <string>
#include <vector>

namespace gradmill {

struct YamlValue {
  enum class Kind { none, plain, quoted, list, mapping, alias };
  std::string name;
  int line = 0;  // of the name, counted from 1
  Kind kind = Kind::none;
  std::string text;  // for plain and quoted values
};

struct YamlSection : YamlValue {
  std::vector<YamlValue> values;  // for a mapping
};

struct YamlMistake {
  int line = 0;
  std::string text;
};

struct YamlDocument {
  std::vector<YamlSection> sections;
  std::vector<YamlMistake> mistakes;
};

// Never throws because of the text's contents. After a syntax error it returns what came before the error.
YamlDocument read_yaml(const std::string& text);

}  // namespace gradmill
