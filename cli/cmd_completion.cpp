// SPDX-License-Identifier: Apache-2.0
// gradmill completion and gradmill man
#include <cstdio>
#include <memory>

#include "commands.h"
#include "shell.h"

namespace gradmill::cli {

Run add_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return [shell, root = app.get_parent()] {
    const auto script = *shell == "bash" ? bash_completion : *shell == "zsh" ? zsh_completion : fish_completion;
    std::fputs(script(*root).c_str(), stdout);
    return 0;
  };
}

Run add_man(CLI::App& app) {
  return [root = app.get_parent()] {
    std::fputs(manual_page(*root).c_str(), stdout);
    return 0;
  };
}

}  // namespace gradmill::cli
