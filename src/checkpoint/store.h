// SPDX-License-Identifier: Apache-2.0
// CheckpointStore: the `checkpoints/` of a run folder. Whatever happens at whatever moment, what it finds there is
// whole.
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
  std::string name;  // "model.safetensors"
  std::vector<NamedTensor> tensors;
};

struct CheckpointWrite {
  int64_t step = 0;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointText> texts;
  std::string state_json = "{}";  // an object
};

// What is wrong where `more` checkpoints of `each` bytes are to come, for people; empty: they fit.
std::string shortage_of_space(size_t free, size_t each, int64_t more);

// checkpoints/step-00000250/            a complete checkpoint
// checkpoints/.replaced-step-00000250/  the one before it of the same step; counts only while there is no other
// checkpoints/.tmp-…-<process id>/      being written or being removed; never read
// One process at a time may write (RunLock); a store is used by one thread at a time.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path run_folder, FileOps& ops = real_file_ops());

  // On return the checkpoint is on the disk, in place of an older one of the same step. The run folder must exist.
  // Throws Error (exit code 1) with the path, the reason and, when the disk is full, the bytes needed and free; then
  // nothing half-written stays, and all older checkpoints are as they were. (When only the very last sync failed, the
  // new one is there, whole, but might not outlive a power cut.)
  void save(const CheckpointWrite& write);
  // Gives a checkpoint another state. Its files are linked, not written again; otherwise as save().
  void replace_state(int64_t step, const std::string& state_json);

  // Free bytes where checkpoints go. Nothing where the system does not say.
  std::optional<size_t> free_bytes() const;
  // Where the step's checkpoint is, complete or not; empty when there is none.
  std::filesystem::path path(int64_t step) const;
  // Of those that look complete, ascending.
  std::vector<int64_t> steps() const;
  // Throws data_error naming the file that is missing or damaged.
  Checkpoint open(int64_t step) const;
  // The newest that verifies; `skipped` gets a line for each newer one that does not.
  std::optional<Checkpoint> newest(std::vector<std::string>* skipped = nullptr) const;

  // Keeps the `keep_last` newest, `best`, and always the newest good one: that is the last one this store saved or,
  // before its first save, the newest that verifies.
  void prune(int64_t keep_last, std::optional<int64_t> best);
  // At every moment the checkpoint is whole or gone. No such step: nothing done.
  void remove(int64_t step);
  // Removes what killed processes left behind, beside the checkpoints too. Call it under the run's lock and before the
  // first save.
  void clean_temporaries();

 private:
  // What `fill` writes into a new folder becomes the checkpoint of this step.
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
