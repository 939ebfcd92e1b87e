// SPDX-License-Identifier: Apache-2.0
// A run's folder: where it is, what it holds besides metrics and checkpoints, and which run to resume.
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
  std::optional<int64_t> step = {};  // a particular checkpoint; none: the newest intact one
  bool from_start = false;           // the run ended before its first checkpoint and has only its settings
};

// `path` is a run folder or one of its checkpoints. Throws a data error if it is neither.
ResumePoint resume_point(const std::filesystem::path& path);
// The run in `dir`, or, if `dir` is empty, the one under runs/ that was started or resumed last; none if there is no
// run.
std::optional<ResumePoint> find_resume_point(const std::filesystem::path& dir);

// checkpoint.dir, or a new name under runs/. Throws a usage error if the folder already holds a run.
std::filesystem::path choose_run_folder(const RunConfig& config);
void create_run_folder(const std::filesystem::path& folder);
// Writes config.yaml and run.json (version, commit, seed, data hash, hardware).
void write_run_files(const std::filesystem::path& folder, const LoadedConfig& config, const RunData& data);

}  // namespace gradmill
