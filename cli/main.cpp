// SPDX-License-Identifier: Apache-2.0
// gradmill: finds the command, runs it, turns errors into one line and an exit code.
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <exception>

#include "commands.h"
#include "core/error.h"

namespace {

// A file opened while a standard stream is closed would get that stream's number, and printed text would end up in it.
void open_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) open("/dev/null", O_RDWR);  // gets the lowest free number
  }
}

// Does not throw if stderr cannot be written.
int report(const char* what, gradmill::ExitCode code) {
  std::fprintf(stderr, "gradmill: %s\n", what);
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
  open_standard_streams();
  try {
    return run(argc, argv);
  } catch (const gradmill::Error& error) {
    return report(error.what(), error.code());
  } catch (const std::exception& error) {
    return report(error.what(), gradmill::ExitCode::failure);
  }
}
