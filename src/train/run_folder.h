// SPDX-License-Identifier: Apache-2.0
// A run's folder: where it is, what it holds beside metrics and checkpoints, and which run a resume means.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/loader.h"
#include "train/run_data.h"

namespace gradmill {

inline constexpr const char* kConfigFile = "config.yaml";

// What to go on from.
struct ResumePoint {
  std::filesystem::path run_folder;
  std::optional<int64_t> step;  // a certain checkpoint; none: the newest good one
};

// `path` is a run folder or one of its checkpoints. Throws a data error when it is neither.
ResumePoint resume_point(const std::filesystem::path& path);
// The run in `dir`, or, when `dir` is empty, the newest under runs/; none when there is no checkpoint to go on from.
std::optional<ResumePoint> find_resume_point(const std::filesystem::path& dir);

// checkpoint.dir, or a new name under runs/. Throws a usage error when the folder holds a run already.
std::filesystem::path choose_run_folder(const RunConfig& config);
// Creates the folder and writes config.yaml and run.json (version, commit, seed, data hash, hardware).
void write_run_files(const std::filesystem::path& folder, const LoadedConfig& config, const RunData& data);

}  // namespace gradmill
