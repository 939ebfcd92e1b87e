// SPDX-License-Identifier: Apache-2.0
// Texts generated from the tables of commands and settings: shell completion and the manual page.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace gradmill::cli {

std::string bash_completion(const CLI::App& root);
std::string zsh_completion(const CLI::App& root);
std::string fish_completion(const CLI::App& root);
// Written in roff, for `gradmill man | man -l -`.
std::string manual_page(const CLI::App& root);

}  // namespace gradmill::cli
