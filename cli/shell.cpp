// SPDX-License-Identifier: Apache-2.0
#include "shell.h"

#include <fmt/format.h>

#include "config/groups.h"
#include "config/run_config.h"
#include "core/build_info.h"

namespace gradmill::cli {
namespace {

std::vector<const CLI::App*> commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string flags(const CLI::App& app) {
  std::string words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  }
  for (const CLI::App* sub : commands(app)) words += sub->get_name() + " ";
  return words;
}

std::string settings() {
  RunConfig config;
  const FieldList list = fields_of(config);
  std::string words;
  for (const Field& field : list.fields()) words += field.name() + "= ";
  std::vector<std::string> ignored;
  const ConfigGroups groups({}, ignored);
  for (const std::string& group : groups.groups()) {
    for (const std::string& name : groups.names(group)) words += group + "=" + name + " ";
  }
  return words;
}

// Roff takes a dot or quote at the start of a line, and a backslash anywhere, for a command.
std::string roff(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n')) escaped += "\\&";
    if (c == '\\') escaped += '\\';
    if (c == '-') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string option_entries(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(option->get_name(false, true)), roff(option->get_description()));
  }
  return text;
}

}  // namespace

std::string bash_completion(const CLI::App& root) {
  std::string cases;
  for (const CLI::App* command : commands(root)) {
    cases += fmt::format("    {}) words=\"{}$settings\" ;;\n", command->get_name(), flags(*command));
  }
  return fmt::format(R"sh(# bash completion for gradmill: eval "$(gradmill completion bash)"
_gradmill() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words settings="{}"
  case "${{COMP_WORDS[1]}}" in
{}    *) words="{}" ;;
  esac
  [ "$COMP_CWORD" -le 1 ] && words="{}"
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ "${{COMPREPLY[0]}}" == *= ]] && compopt -o nospace
  [ ${{#COMPREPLY[@]}} -eq 0 ] && COMPREPLY=($(compgen -f -- "$current"))
}}
COMP_WORDBREAKS="${{COMP_WORDBREAKS//=/}}"
complete -F _gradmill gradmill
)sh",
                     settings(), cases, flags(root), flags(root));
}

std::string zsh_completion(const CLI::App& root) {
  return "#compdef gradmill\n# zsh completion for gradmill: eval \"$(gradmill completion zsh)\"\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_completion(root) +
         // Where zsh loads this as the function _gradmill, it asks for words at once.
         "if [ \"${funcstack[1]}\" = _gradmill ]; then _bash_complete -F _gradmill; fi\n";
}

std::string fish_completion(const CLI::App& root) {
  std::string text = "# fish completion for gradmill: gradmill completion fish | source\n";
  const std::string all_settings = settings();
  for (const CLI::App* command : commands(root)) {
    const std::string& name = command->get_name();
    text += fmt::format("complete -c gradmill -n __fish_use_subcommand -f -a {} -d {}\n", name,
                        fish_quoted(command->get_description()));
    const std::string within = fmt::format("complete -c gradmill -n '__fish_seen_subcommand_from {}'", name);
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& flag : option->get_lnames()) {
        text += fmt::format("{} -l {} -d {}\n", within, flag, fish_quoted(option->get_description()));
      }
    }
    for (const CLI::App* sub : commands(*command)) {
      text += fmt::format("{} -a {} -d {}\n", within, sub->get_name(), fish_quoted(sub->get_description()));
    }
    text += fmt::format("{} -a '{}'\n", within, all_settings);
  }
  return text;
}

std::string manual_page(const CLI::App& root) {
  std::string text = fmt::format(
      ".TH GRADMILL 1 \"\" \"gradmill {}\"\n.SH NAME\ngradmill \\- {}\n.SH SYNOPSIS\n"
      ".B gradmill\n.I command\n.RI [ arguments ]\n.SH COMMANDS\n",
      build_info().version, roff(root.get_description()));
  for (const CLI::App* command : commands(root)) {
    text +=
        fmt::format(".SS {}\n{}\n{}", command->get_name(), roff(command->get_description()), option_entries(*command));
    for (const CLI::App* sub : commands(*command)) {
      text += fmt::format(".TP\n\\fB{} {}\\fR\n{}\n{}", command->get_name(), sub->get_name(),
                          roff(sub->get_description()), option_entries(*sub));
    }
  }
  text +=
      ".SH SETTINGS\nA setting is given as section.key=value, in a YAML file (\\-\\-config) or by a group "
      "(experiment=name).\n";
  RunConfig config;
  const FieldList list = fields_of(config);
  for (const Field& field : list.fields()) {
    text += fmt::format(".TP\n\\fB{}\\fR={}\n{}; {}\n", roff(field.name()), roff(value_text(field)), roff(field.help),
                        roff(allowed_values(field)));
  }
  return text +
         ".SH EXIT STATUS\n0 done; 1 failure; 2 usage or settings; 3 out of memory; 4 data; 130 interrupted, state "
         "saved.\n";
}

}  // namespace gradmill::cli
