// SPDX-License-Identifier: Apache-2.0
// CheckpointStore: the folder `checkpoints/` of a run. Checkpoints in it are always complete, whatever happens at any
// moment.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_text.h"
#include "checkpoint/safetensors_writer.h"
#include "files/file_ops.h"

namespace gradmill {

struct CheckpointFile {
  std::string name;  // for example "model.safetensors"
  std::vector<NamedTensor> tensors;
};

struct CheckpointWrite {
  int64_t step = 0;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointText> texts;
  std::string state_json = "{}";  // must be a JSON object
};

// If `more` checkpoints of `each` bytes do not fit, describes the problem for the user. Empty if they fit.
std::string shortage_of_space(size_t free, size_t each, int64_t more);

// checkpoints/step-00000250/            a complete checkpoint
// checkpoints/.replaced-step-00000250/  an older one of the same step; used only if the other does not exist
// checkpoints/.tmp-…-<process id>/      being written or being removed; never read
// Only one process may write at a time (RunLock), and only one thread may use a store at a time.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path run_folder, FileOps& ops = real_file_ops());

  // On return the checkpoint is on disk and has replaced any older one of the same step. The run folder must exist. On
  // failure throws Error (exit code 1) with the path, the reason and, if the disk is full, the bytes needed and free.
  // Then no partial checkpoint remains and all older checkpoints are unchanged. (If only the last sync failed, the new
  // checkpoint is complete, but may not survive a power failure.)
  void save(const CheckpointWrite& write);
  // Replaces the state of a checkpoint. Its files are linked, not written again; otherwise the same as save().
  void replace_state(int64_t step, const std::string& state_json);

  // Free bytes on the disk of the checkpoints, or nothing if the system does not say.
  std::optional<size_t> free_bytes() const;
  // The folder of the step's checkpoint, complete or not; empty if there is none.
  std::filesystem::path path(int64_t step) const;
  // The steps whose checkpoints look complete, in ascending order.
  std::vector<int64_t> steps() const;
  // Throws a data_error that names the missing or damaged file.
  Checkpoint open(int64_t step) const;
  // The newest checkpoint that passes verification. For each newer one that fails, `skipped` receives one line.
  std::optional<Checkpoint> newest(std::vector<std::string>* skipped = nullptr) const;

  // Keeps the `keep_last` newest checkpoints, `best`, and always the newest valid one: the last one that this store
  // saved or, before its first save, the newest that passes verification.
  void prune(int64_t keep_last, std::optional<int64_t> best);
  // At every moment the checkpoint is either complete or gone. Does nothing if the step does not exist.
  void remove(int64_t step);
  // Removes temporary files of killed processes, including those next to the checkpoints. Call it while holding the
  // run's lock and before the first save.
  void clean_temporaries();

 private:
  // `fill` writes into a new folder, which then becomes the checkpoint of this step.
  void publish(int64_t step, const std::function<void(const std::filesystem::path&)>& fill);
  void write_files(const CheckpointWrite& write, const std::filesystem::path& folder);
  void write_manifest(const Manifest& manifest, const std::filesystem::path& folder);
  FileRecord write_text(const std::filesystem::path& path, std::string_view content);
  void link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to);
  Error explain(const FileError& error, int64_t step, uint64_t bytes) const;

  std::filesystem::path run_folder_, folder_;
  FileOps& ops_;
  std::optional<int64_t> last_saved_;
};

}  // namespace gradmill
