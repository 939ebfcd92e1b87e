// SPDX-License-Identifier: Apache-2.0
// gradmill: finds the command, runs it, turns errors into one line and an exit code.
#include <cstdio>
#include <exception>

#include "commands.h"
#include "core/error.h"

namespace {

int report(const char* what, gradmill::ExitCode code) {
  fmt::print(stderr, "gradmill: {}\n", what);
  return static_cast<int>(code);
}

int run(int argc, char** argv) {
  CLI::App app("Trains transformers from one binary.", "gradmill");
  app.require_subcommand(1);
  gradmill::cli::Run chosen;
  for (const gradmill::cli::Command& command : gradmill::cli::kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->callback([&chosen, action = command.add(*sub)] { chosen = action; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    return report((std::string(error.what()) + "; see 'gradmill --help'").c_str(), gradmill::ExitCode::usage);
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const gradmill::Error& error) {
    return report(error.what(), error.code());
  } catch (const std::exception& error) {
    return report(error.what(), gradmill::ExitCode::failure);
  }
}
