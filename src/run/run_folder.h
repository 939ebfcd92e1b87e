// SPDX-License-Identifier: Apache-2.0
// A run's folder: where it is, what it holds beside metrics and checkpoints, and which run a resume means.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/loader.h"
#include "run/run_data.h"

namespace gradmill {

inline constexpr const char* kConfigFile = "config.yaml";

// What to resume.
struct ResumePoint {
  std::filesystem::path run_folder;
  std::optional<int64_t> step = {};  // a certain checkpoint; none: the newest good one
  bool from_start = false;           // the run ended before its first checkpoint, and has its settings only
};

// `path` is a run folder or one of its checkpoints. Throws a data error when it is neither.
ResumePoint resume_point(const std::filesystem::path& path);
// The run in `dir`, or, when `dir` is empty, the one under runs/ that was started or resumed last; none where there is
// no run.
std::optional<ResumePoint> find_resume_point(const std::filesystem::path& dir);

// checkpoint.dir, or a new name under runs/. Throws a usage error when the folder holds a run already.
std::filesystem::path choose_run_folder(const RunConfig& config);
void create_run_folder(const std::filesystem::path& folder);
// Writes config.yaml and run.json (version, commit, seed, data hash, hardware).
void write_run_files(const std::filesystem::path& folder, const LoadedConfig& config, const RunData& data);

}  // namespace gradmill
