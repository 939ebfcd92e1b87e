// SPDX-License-Identifier: Apache-2.0
#include "on_paper.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"

namespace gradmill::cli {
namespace {

constexpr const char* kProgram = "gradmill_on_paper";

// GRADMILL_ON_PAPER names the program. Otherwise it is next to this one, or where the presets build it.
std::filesystem::path find_program() {
  if (const char* const named = std::getenv("GRADMILL_ON_PAPER"); named != nullptr && *named != '\0') return named;
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  for (const char* const below : {".", "tests/paper_gpu", "../build-paper/tests/paper_gpu"}) {
    const std::filesystem::path candidate = folder / below / kProgram;
    if (std::filesystem::exists(candidate, failed)) return candidate;
  }
  throw usage_error(
      "--on-paper needs the program gradmill_on_paper, which is neither next to this one nor in "
      "../build-paper/tests/paper_gpu",
      "build it on a machine with nvcc (cmake --preset paper && cmake --build build-paper --target "
      "gradmill_on_paper), or set GRADMILL_ON_PAPER to its path");
}

void set(const char* variable, const std::string& value) { setenv(variable, value.c_str(), 1); }

}  // namespace

void run_on_paper(const std::string& gpu, const std::vector<std::string>& args) {
  const std::string program = find_program().string();
  set("PAPER_GPU", gpu);
  set("PAPER_TIME", "model");
  set("PAPER_GPU_COMPUTES", "off");
  // Tuning choices that follow from modelled times must not be stored for a real GPU.
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  std::vector<const char*> words = {program.c_str()};
  for (const std::string& arg : args) words.push_back(arg.c_str());
  words.push_back(nullptr);
  execv(program.c_str(), const_cast<char* const*>(words.data()));
  throw usage_error("cannot start " + program, "build it again, or set GRADMILL_ON_PAPER to another one");
}

}  // namespace gradmill::cli
