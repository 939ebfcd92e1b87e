// SPDX-License-Identifier: Apache-2.0
#include "config/yaml_source.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <sstream>

#include "config/suggest.h"

namespace gradmill {
namespace {

using Kind = YamlValue::Kind;

struct Node {
  int line = 0;
  Kind kind = Kind::none;
  std::string text;
  std::vector<Node> children;  // for a mapping: name, value, name, value, ...
};

int line_of(const YAML::Mark& mark) { return mark.is_null() ? 1 : mark.line + 1; }

// Builds a tree of its own: yaml-cpp's gives nothing when the text has a syntax error.
class TreeBuilder : public YAML::EventHandler {
 public:
  // The root; its children are the documents.
  Node finish() { return std::move(open_.front()); }

  // The root after a syntax error: the sections before it, without values that may be part of the error.
  Node finish_before(int error_line) {
    while (open_.size() > 3 || (open_.size() > 1 && open_.back().kind == Kind::list)) open_.pop_back();
    std::vector<Node>& last = open_.back().children;
    while (!last.empty() && last.back().line >= error_line) last.pop_back();
    while (open_.size() > 1) close();
    return finish();
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add({line_of(mark), Kind::none}); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { add({line_of(mark), Kind::alias}); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& text) override {
    add({line_of(mark), tag == "!" ? Kind::quoted : Kind::plain, text});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open_.push_back({line_of(mark), Kind::list});
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open_.push_back({line_of(mark), Kind::mapping});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  void add(Node node) { open_.back().children.push_back(std::move(node)); }
  void close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }

  std::vector<Node> open_ = std::vector<Node>(1);
};

class Converter {
 public:
  explicit Converter(YamlDocument& document) : document_(document) {}

  void convert(const Node& root) {
    if (root.kind == Kind::none) return;  // an empty file
    if (root.kind != Kind::mapping)
      return mistake(root.line, "not a mapping of sections; write 'training:' and below it '  steps: 100'");
    each_pair(root, "", [&](const Node& name, const Node& content) {
      YamlSection section{{name.text, name.line, content.kind, content.text}, {}};
      if (content.kind == Kind::mapping) {
        each_pair(content, name.text + ".", [&](const Node& key, const Node& value) {
          section.values.push_back({key.text, key.line, value.kind, value.text});
        });
      }
      document_.sections.push_back(std::move(section));
    });
  }

 private:
  void mistake(int line, std::string text) { document_.mistakes.push_back({line, std::move(text)}); }

  // Skips a name whose value is missing because of a syntax error.
  template <class Take>
  void each_pair(const Node& mapping, const std::string& prefix, Take take) {
    for (size_t i = 0; i + 1 < mapping.children.size(); i += 2) {
      const Node& name = mapping.children[i];
      if (name.kind != Kind::plain && name.kind != Kind::quoted) {
        mistake(name.line, "a key must be a single word");
        continue;
      }
      const auto [first, is_new] = first_lines_.emplace(prefix + name.text, name.line);
      if (!is_new) {
        mistake(name.line, fmt::format("duplicate key {}, already on line {}; keep one of them",
                                       quoted_text(prefix + name.text), first->second));
      }
      take(name, mapping.children[i + 1]);
    }
  }

  YamlDocument& document_;
  std::map<std::string, int> first_lines_;
};

}  // namespace

YamlDocument read_yaml(const std::string& text) {
  YamlDocument document;
  TreeBuilder builder;
  Node root;
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    root = builder.finish();
  } catch (const YAML::Exception& error) {
    const int line = line_of(error.mark);
    const int column = error.mark.is_null() ? 1 : error.mark.column + 1;
    document.mistakes.push_back({line, fmt::format("not valid YAML: {} (column {})", error.msg, column)});
    root = builder.finish_before(line);
  }
  if (!root.children.empty()) Converter(document).convert(root.children.front());
  if (root.children.size() > 1) {
    document.mistakes.push_back(
        {root.children[1].line, "a second YAML document starts here; a file may hold only one"});
  }
  return document;
}

}  // namespace gradmill
