// SPDX-License-Identifier: Apache-2.0
// Writes to a temporary folder, syncs, then renames: a checkpoint's name never refers to an incomplete checkpoint.
#include "checkpoint/store.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <set>

#include "core/error.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-", kReplacedPrefix = ".replaced-", kTemporaryPrefix = ".tmp-";

std::string step_name(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }
std::string replaced_name(int64_t step) { return fmt::format("{}{}", kReplacedPrefix, step_name(step)); }
std::string temporary_name(std::string_view what, int64_t step) {
  return fmt::format("{}{}{}-{}", kTemporaryPrefix, what, step_name(step), ::getpid());
}

// The step in a folder's name.
std::optional<int64_t> parse_step_name(std::string_view name) {
  if (name.starts_with(kReplacedPrefix)) name.remove_prefix(kReplacedPrefix.size());
  if (!name.starts_with(kStepPrefix)) return {};
  int64_t step = -1;
  std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  return step >= 0 && name == step_name(step) ? std::optional(step) : std::nullopt;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<std::string> list(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw data_error(fmt::format("{}: cannot list: {}", folder.string(), error.message()), "check its permissions");
  }
  return names;
}

// A folder that is removed with its owner unless it was renamed to its final name.
class TemporaryFolder {
 public:
  TemporaryFolder(FileOps& ops, fs::path path) : ops_(ops), path_(std::move(path)) {
    remove_tree(ops_, path_);
    ops_.make_folder(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    if (!path_.empty()) try_remove_tree(ops_, path_);
  }

  const fs::path& path() const { return path_; }
  void rename_to(const fs::path& target) {
    ops_.rename(path_, target);
    path_.clear();
  }

 private:
  FileOps& ops_;
  fs::path path_;
};

uint64_t bytes_needed(const CheckpointWrite& write) {
  uint64_t bytes = write.state_json.size();
  for (const CheckpointFile& file : write.files) bytes += safetensors_bytes(file.tensors);
  for (const CheckpointText& text : write.texts) bytes += text.content.size();
  return bytes;
}

std::string size_text(uint64_t bytes) {
  if (bytes < (1 << 20)) return fmt::format("{} bytes", bytes);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// Whether the process named at the end of a temporary name is alive. If the name contains no process, the answer is no.
bool owner_lives(std::string_view name) {
  pid_t owner = 0;
  const std::string_view digits = name.substr(name.rfind('-') + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), owner);
  // This process has no temporaries before its first save. A file with its id is from an earlier process, since ids
  // repeat in containers.
  if (owner <= 0 || owner == ::getpid()) return false;
  return ::kill(owner, 0) == 0 || errno == EPERM;
}

bool is_stale(std::string_view name) { return name.starts_with(kTemporaryPrefix) && !owner_lives(name); }

}  // namespace

std::string shortage_of_space(size_t free, size_t each, int64_t more) {
  if (free >= each * static_cast<size_t>(more)) return {};
  return fmt::format("a checkpoint takes {}, and {} are free where {} more {} to be written", size_text(each),
                     size_text(free), more, more == 1 ? "is" : "are");
}

CheckpointStore::CheckpointStore(fs::path run_folder, FileOps& ops)
    : run_folder_(std::move(run_folder)), folder_(run_folder_ / "checkpoints"), ops_(ops) {}

void CheckpointStore::save(const CheckpointWrite& write) {
  assert(write.step >= 0);
  try {
    if (!is_there(folder_)) {
      ops_.make_folder(folder_);
      ops_.sync_folder(run_folder_);
    }
    publish(write.step, [&](const fs::path& folder) { write_files(write, folder); });
    last_saved_ = write.step;
  } catch (const FileError& error) {
    throw explain(error, write.step, bytes_needed(write));
  }
}

void CheckpointStore::replace_state(int64_t step, const std::string& state_json) {
  try {
    const fs::path old = path(step);
    Manifest manifest = read_manifest(old);
    manifest.state_json = state_json;
    publish(step, [&](const fs::path& folder) {
      for (const auto& [name, record] : manifest.files) link_or_copy(old / name, folder / name);
      write_manifest(manifest, folder);
    });
  } catch (const FileError& error) {
    throw explain(error, step, state_json.size());
  }
}

void CheckpointStore::publish(int64_t step, const std::function<void(const fs::path&)>& fill) {
  TemporaryFolder temporary(ops_, folder_ / temporary_name("", step));
  fill(temporary.path());
  const fs::path target = folder_ / step_name(step), replaced = folder_ / replaced_name(step);
  if (is_there(target)) {
    remove_tree(ops_, replaced);
    ops_.rename(target, replaced);
  }
  temporary.rename_to(target);
  ops_.sync_folder(folder_);
  try_remove_tree(ops_, replaced);
}

FileRecord CheckpointStore::write_text(const fs::path& path, std::string_view content) {
  OutputFile file(ops_, path);
  file.append(content);
  return file.finish();
}

void CheckpointStore::write_files(const CheckpointWrite& write, const fs::path& folder) {
  Manifest manifest{write.step, {}, write.state_json};
  for (const auto& [name, tensors] : write.files) {
    check_file_name(name, folder.string());
    OutputFile file(ops_, folder / name);
    write_safetensors(file, tensors);
    manifest.files.emplace(name, file.finish());
  }
  for (const auto& [name, content] : write.texts) {
    check_file_name(name, folder.string());
    manifest.files.emplace(name, write_text(folder / name, content));
  }
  write_manifest(manifest, folder);
}

// Writes the manifest, the last file of a checkpoint.
void CheckpointStore::write_manifest(const Manifest& manifest, const fs::path& folder) {
  const std::string text = manifest_text(manifest);
  write_text(folder / kManifestName, text);
  write_text(folder / kManifestSumName, manifest_sum(text));
  ops_.sync_folder(folder);
}

void CheckpointStore::link_or_copy(const fs::path& from, const fs::path& to) {
  try {
    return ops_.link(from, to);
  } catch (const FileError& error) {
    if (!error.no_links()) throw;
  }
  OutputFile copy(ops_, to);
  std::ifstream file(from, std::ios::binary);
  std::string block(size_t{1} << 20, '\0');
  while (file.read(block.data(), std::ssize(block)), file.gcount() > 0) {
    copy.append(std::string_view(block.data(), static_cast<size_t>(file.gcount())));
  }
  copy.finish();
}

Error CheckpointStore::explain(const FileError& error, int64_t step, uint64_t bytes) const {
  const std::string what = fmt::format("cannot save the checkpoint of step {}: {}", step, error.problem());
  if (!error.disk_full()) {
    return Error(ExitCode::failure, what,
                 "older checkpoints are unchanged; make the folder writable or use another, and resume");
  }
  const std::optional<size_t> free = free_bytes();
  return Error(ExitCode::failure,
               fmt::format("{}; it needs {}, {} are free", what, size_text(bytes),
                           free ? size_text(*free) : "an unknown number"),
               "older checkpoints are unchanged; free space or keep fewer checkpoints, and resume");
}

std::optional<size_t> CheckpointStore::free_bytes() const {
  std::error_code unknown;
  const fs::space_info space = fs::space(is_there(folder_) ? folder_ : run_folder_, unknown);
  return unknown ? std::nullopt : std::optional<size_t>(space.available);
}

fs::path CheckpointStore::path(int64_t step) const {
  for (const std::string& name : {step_name(step), replaced_name(step)}) {
    if (is_there(folder_ / name)) return folder_ / name;
  }
  return {};
}

std::vector<int64_t> CheckpointStore::steps() const {
  std::set<int64_t> steps;
  for (const std::string& name : list(folder_)) {
    const std::optional<int64_t> step = parse_step_name(name);
    if (!step) continue;
    const fs::path folder = path(*step);
    if (is_there(folder / kManifestName) && is_there(folder / kManifestSumName)) steps.insert(*step);
  }
  return {steps.begin(), steps.end()};
}

Checkpoint CheckpointStore::open(int64_t step) const {
  const fs::path folder = path(step);
  if (folder.empty()) {
    throw data_error(fmt::format("{}: no checkpoint of step {}", folder_.string(), step), "use an existing step");
  }
  Checkpoint checkpoint(folder);
  if (checkpoint.step() != step) {
    throw data_error(fmt::format("{}: holds the checkpoint of step {}", folder.string(), checkpoint.step()),
                     "rename the folder back");
  }
  return checkpoint;
}

std::optional<Checkpoint> CheckpointStore::newest(std::vector<std::string>* skipped) const {
  const std::vector<int64_t> all = steps();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    try {
      return open(*step);
    } catch (const Error& error) {
      if (skipped != nullptr) skipped->push_back(error.what());
    }
  }
  return {};
}

void CheckpointStore::prune(int64_t keep_last, std::optional<int64_t> best) {
  const std::vector<int64_t> all = steps();
  if (static_cast<int64_t>(all.size()) <= keep_last) return;
  std::set<int64_t> kept(all.end() - std::max<int64_t>(keep_last, 0), all.end());
  if (best) kept.insert(*best);
  if (last_saved_ && std::binary_search(all.begin(), all.end(), *last_saved_)) {
    kept.insert(*last_saved_);
  } else if (const std::optional<Checkpoint> good = newest()) {
    kept.insert(good->step());
  }
  for (const int64_t step : all) {
    if (!kept.contains(step)) remove(step);
  }
}

void CheckpointStore::remove(int64_t step) {
  const fs::path target = folder_ / step_name(step);
  // While the newer checkpoint exists, this one is ignored and may be partly removed.
  if (is_there(target)) remove_tree(ops_, folder_ / replaced_name(step));
  const fs::path folder = path(step);
  if (folder.empty()) return;
  const fs::path gone = folder_ / temporary_name("removed-", step);
  remove_tree(ops_, gone);
  ops_.rename(folder, gone);
  ops_.sync_folder(folder_);
  remove_tree(ops_, gone);
}

void CheckpointStore::clean_temporaries() {
  for (const std::string& name : list(folder_)) {
    const std::optional<int64_t> step = name.starts_with(kReplacedPrefix) ? parse_step_name(name) : std::nullopt;
    if (is_stale(name) || (step && is_there(folder_ / step_name(*step)))) remove_tree(ops_, folder_ / name);
  }
  for (const std::string& name : list(run_folder_)) {
    if (is_stale(name)) remove_tree(ops_, run_folder_ / name);
  }
}

}  // namespace gradmill
