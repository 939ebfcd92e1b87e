// SPDX-License-Identifier: Apache-2.0
#include "run/run_folder.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "checkpoint/store.h"
#include "config/render.h"
#include "cuda/devices.h"
#include "files/output_file.h"
#include "core/build_info.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRuns = "runs";

bool holds_checkpoints(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "checkpoints", ignored) && !CheckpointStore(folder).steps().empty();
}

// A run's folder has its settings from the start, and checkpoints later.
bool holds_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kConfigFile, ignored) || holds_checkpoints(folder);
}

ResumePoint point_of(const fs::path& folder) {
  return {.run_folder = folder, .from_start = !holds_checkpoints(folder)};
}

// The time when the run was started or resumed last.
fs::file_time_type last_start(const fs::path& folder) {
  std::error_code failed;
  const fs::file_time_type time = fs::last_write_time(folder / kConfigFile, failed);
  return failed ? fs::file_time_type::min() : time;
}

std::string timestamp() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

// The name of the first path, without characters that are special in a shell.
std::string data_name(const RunConfig& config) {
  if (config.data.path.empty()) return fs::path(config.data.dataset).stem().string();
  fs::path path = config.data.path.substr(0, config.data.path.find(','));
  if (path.filename().empty()) path = path.parent_path();
  std::string name = path.filename().string();
  name = name.substr(0, name.find('.', 1));
  for (char& character : name) {
    if (std::string_view("*?[]'\"\\ $&;<>|()").find(character) != std::string_view::npos) character = '_';
  }
  return name;
}

std::string model_name(const ModelConfig& model) {
  if (model.path.empty()) return model.style;
  const fs::path path = model.path;
  return (path.has_filename() ? path : path.parent_path()).stem().string();
}

nlohmann::json describe(const DeviceSpec& spec) {
  return {{"name", spec.title},
          {"units", spec.num_units},
          {"memory_bytes", spec.memory_bytes},
          {"compute_capability", spec.compute_capability}};
}

std::string provenance(const RunConfig& config, const RunData& data) {
  const BuildInfo& build = build_info();
  nlohmann::json json = {{"version", build.version},
                         {"commit", build.git_hash},
                         {"compiler", build.compiler},
                         {"build_type", build.build_type},
                         {"started", timestamp()},
                         {"seed", config.training.seed},
                         {"data", {{"name", data.name()}, {"origin", data.origin()}, {"sha256", data.hash()}}},
                         {"cpu", describe(host_cpu())}};
  json["gpus"] = nlohmann::json::array();
  for (const DeviceSpec& gpu : cuda::present_devices()) json["gpus"].push_back(describe(gpu));
  return json.dump(2) + "\n";
}

}  // namespace

ResumePoint resume_point(const fs::path& path) {
  if (holds_run(path)) return point_of(path);
  const std::string name = path.filename().empty() ? path.parent_path().filename().string() : path.filename().string();
  constexpr std::string_view kPrefix = "step-";
  const bool digits =
      name.size() > kPrefix.size() && name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
  if (name.starts_with(kPrefix) && digits && fs::exists(path)) {
    const fs::path checkpoint = path.filename().empty() ? path.parent_path() : path;
    return {.run_folder = checkpoint.parent_path().parent_path(), .step = std::stoll(name.substr(kPrefix.size()))};
  }
  throw data_error(fmt::format("'{}' is neither a run folder nor a checkpoint", path.string()),
                   "give the folder of a run, or use --resume auto");
}

std::optional<ResumePoint> find_resume_point(const fs::path& dir) {
  if (!dir.empty()) return holds_run(dir) ? std::optional(point_of(dir)) : std::nullopt;
  std::vector<fs::path> runs;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(kRuns, ignored)) {
    if (holds_run(entry.path())) runs.push_back(entry.path());
  }
  if (runs.empty()) return std::nullopt;
  // Names begin with the time, so two runs of the same second would clash.
  return point_of(*std::max_element(runs.begin(), runs.end(), [](const fs::path& a, const fs::path& b) {
    return std::pair(last_start(a), a) < std::pair(last_start(b), b);
  }));
}

fs::path choose_run_folder(const RunConfig& config) {
  if (!config.checkpoint.dir.empty()) {
    if (holds_checkpoints(config.checkpoint.dir)) {
      throw usage_error(fmt::format("'{}' already holds a run", config.checkpoint.dir),
                        "resume it with --resume auto, or choose another checkpoint.dir");
    }
    return config.checkpoint.dir;
  }
  const fs::path base =
      fs::path(kRuns) / fmt::format("{}-{}-{}", timestamp(), data_name(config), model_name(config.model));
  fs::path folder = base;
  for (int number = 2; fs::exists(folder); ++number) folder = base.string() + "-" + std::to_string(number);
  return folder;
}

void create_run_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    throw data_error(fmt::format("cannot create '{}' ({})", folder.string(), failed.message()),
                     "choose another checkpoint.dir");
  }
}

void write_run_files(const fs::path& folder, const LoadedConfig& config, const RunData& data) {
  replace_file(folder / kConfigFile, effective_yaml(config, true));
  replace_file(folder / "run.json", provenance(config.config, data));
}

}  // namespace gradmill
