// SPDX-License-Identifier: Apache-2.0
// The tool writes to an in-memory file. Nothing reaches the disk before the hash is verified, even if the process is
// killed.
#include "files/download.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <optional>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "files/descriptor.h"
#include "files/sha256.h"
#include "files/output_file.h"

extern char** environ;

namespace gradmill {
namespace {

// Unblocks signals in the child: it would inherit blocked ones and ignore Ctrl-C.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  posix_spawnattr_t* get() { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

class SpawnActions {
 public:
  SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

struct ToolResult {
  int status;  // as returned by waitpid
  std::string output;
  std::string errors;
};

std::string contents(const Descriptor& memory) {
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  for (off_t at = 0;; at = static_cast<off_t>(bytes.size())) {
    const ssize_t got = ::pread(memory.get(), buffer.data(), buffer.size(), at);
    if (got <= 0) return bytes;
    bytes.append(buffer.data(), static_cast<size_t>(got));
  }
}

// Returns nothing if the tool is not installed.
std::optional<ToolResult> run_tool(std::vector<std::string> arguments) {
  const Descriptor output(::memfd_create("output", MFD_CLOEXEC)), errors(::memfd_create("errors", MFD_CLOEXEC));
  if (!output.is_open() || !errors.is_open()) throw std::system_error(errno, std::generic_category(), "memfd_create");
  SpawnActions actions;
  ::posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(actions.get(), output.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(actions.get(), errors.get(), STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t process = 0;
  const int failure = ::posix_spawnp(&process, argv[0], actions.get(), SpawnAttributes().get(), argv.data(), environ);
  if (failure == ENOENT || failure == EACCES) return std::nullopt;
  if (failure != 0) throw std::system_error(failure, std::generic_category(), arguments[0]);
  ToolResult result{};
  while (::waitpid(process, &result.status, 0) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  }
  result.output = contents(output);
  result.errors = contents(errors);
  return result;
}

// The last non-empty line without its full stop. There curl and wget say what went wrong.
std::string_view last_line(std::string_view text) {
  const size_t end = text.find_last_not_of(". \r\n");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  return text.substr(text.find_last_of("\r\n") + 1);
}

std::string fetch(const std::string& url) {
  const std::vector<std::vector<std::string>> tools = {
      {"curl", "--fail", "--silent", "--show-error", "--location", "--connect-timeout", "30", "--speed-limit", "1",
       "--speed-time", "60", url},
      {"wget", "--no-verbose", "--tries=1", "--timeout=60", "--output-document=-", url}};
  for (const auto& tool : tools) {
    std::optional<ToolResult> result = run_tool(tool);
    if (!result) continue;
    if (WIFEXITED(result->status) && WEXITSTATUS(result->status) == 0) return std::move(result->output);
    const std::string_view said = last_line(result->errors);
    throw data_error(fmt::format("could not download {}: {}", url, said.empty() ? tool[0] + " failed" : said),
                     "check the network and try again");
  }
  throw data_error(fmt::format("could not download {}: neither curl nor wget is installed", url),
                   "install one of them, or fetch the file by hand");
}

}  // namespace

std::string download_file(std::string_view url, const std::filesystem::path& target, std::string_view sha256) {
  std::string bytes = fetch(std::string(url));
  const std::string hash = sha256_hex(std::as_bytes(std::span(bytes)));
  if (hash != sha256) {
    throw data_error(fmt::format("{} gave {} bytes with SHA-256 {}, expected {}", url, bytes.size(), hash, sha256),
                     fmt::format("nothing was kept; try again, or put the right file at '{}'", target.string()));
  }
  replace_file(target, bytes);
  return bytes;
}

}  // namespace gradmill
