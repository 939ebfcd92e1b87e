// SPDX-License-Identifier: Apache-2.0
#include "train/launch.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>

#include "checkpoint/run_lock.h"
#include "config/render.h"
#include "metrics/run_metrics.h"
#include "train/metrics_fan.h"
#include "run/model_folder.h"
#include "run/preset.h"
#include "run/run_folder.h"
#include "run/load_run_data.h"
#include "run/open_run.h"
#include "run/run_options.h"
#include "train/run_report.h"
#include "train/stop_signal.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

// Prints a line for the user. A closed terminal must not end the run.
void say(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

struct Prepared {
  LoadedConfig config;
  std::optional<ResumePoint> resume;
};

// The command line overrides the settings that the preset chooses.
void apply_preset(ConfigRequest request, const std::string& name, LoadedConfig& config) {
  const Preset preset = choose_preset(config, name, check_run_data);
  say("gradmill: " + preset.reason);
  request.overrides.insert(request.overrides.begin(), preset.settings.begin(), preset.settings.end());
  config = load_config(request);
  for (const std::string& setting : preset.settings) {
    config.origins[setting.substr(0, setting.find('='))] = "preset " + name;
  }
}

fs::path saved_config(const ResumePoint& point) { return point.run_folder / kConfigFile; }

// A resumed run keeps the origins of the settings it was started with.
void keep_origins(const fs::path& saved, LoadedConfig& config) {
  std::ifstream file(saved, std::ios::binary);
  const std::map<std::string, std::string> origins = origins_in({std::istreambuf_iterator<char>(file), {}});
  for (auto& [key, origin] : config.origins) {
    const auto before = origins.find(key);
    if (before != origins.end() && origin.starts_with(saved.string() + ":")) origin = before->second;
  }
}

// A resumed run has its own saved settings, which the command line can change.
Prepared prepare(const LaunchOptions& options) {
  Prepared prepared;
  if (!options.preset.empty() && !options.resume.empty() && options.resume != "auto") {
    throw usage_error("--preset is for new runs; a resumed run already has its settings",
                      "leave --preset out, or name the settings to change");
  }
  if (options.resume == "auto") {
    prepared.resume = find_resume_point(load_config(options.config).config.checkpoint.dir);
    if (!prepared.resume) say("gradmill: there is no run to resume, so a new one starts");
  } else if (!options.resume.empty()) {
    prepared.resume = resume_point(options.resume);
  }
  ConfigRequest request = options.config;
  if (prepared.resume && !options.preset.empty()) {
    say(fmt::format("gradmill: preset {} is ignored: a resumed run already has its settings", options.preset));
  }
  if (prepared.resume) {
    const fs::path saved = saved_config(*prepared.resume);
    request.files.insert(request.files.begin(), saved);
    prepared.config = load_config(request);
    keep_origins(saved, prepared.config);
  } else {
    prepared.config = load_config(request);
    if (!options.preset.empty()) apply_preset(request, options.preset, prepared.config);
  }
  return prepared;
}

int dry_run(const LoadedConfig& config) {
  const CheckedData data = check_run_data(config.config);
  const RunModel model = open_run_model(config.config, data.task, data.vocab);
  const SessionOptions session = session_options(config.config, data.shape);
  fmt::print("{}\n{}", effective_yaml(config, true), describe(Session::plan(*model.network, session)));
  return 0;
}

std::optional<Checkpoint> open_checkpoint(const CheckpointStore& store, const ResumePoint& point) {
  if (point.step) return store.open(*point.step);
  std::vector<std::string> skipped;
  std::optional<Checkpoint> checkpoint = store.newest(&skipped);
  for (const std::string& line : skipped) say("gradmill: " + line);
  if (!checkpoint) {
    throw data_error(fmt::format("'{}' has no readable checkpoint", point.run_folder.string()), "start a new run");
  }
  return checkpoint;
}

std::unique_ptr<Progress> make_screen(const RunConfig& config, const Trainer& trainer) {
  if (config.logging.progress == "off") return nullptr;
  ProgressOptions options;
  options.total_steps = trainer.length().total_steps;
  options.num_epochs = trainer.length().num_epochs();
  options.every_steps = config.logging.every_steps;
  if (config.logging.progress == "bar") options.terminal = true;
  if (config.logging.progress == "lines") options.terminal = false;
  return std::make_unique<Progress>(std::move(options));
}

std::unique_ptr<SinkList> open_files(const RunConfig& config, const Trainer& trainer, const fs::path& folder,
                                     int64_t resume_step, SinkList::Warn warn) {
  RunMetricsOptions options;
  options.resume_step = resume_step;
  options.state = {.max_steps = trainer.length().total_steps,
                   .num_train_epochs = trainer.length().num_epochs(),
                   .train_batch_size = config.training.batch_size,
                   .logging_steps = config.logging.every_steps,
                   .eval_steps = config.eval.every_steps,
                   .save_steps = config.checkpoint.every_steps,
                   .flops_per_token = trainer.flops_per_token(),
                   .metric = metric_name(config),
                   .larger_is_better = larger_is_better(metric_name(config))};
  options.eval_values = trainer.run_model().task.score_names();
  options.jsonl = config.logging.jsonl;
  options.csv = config.logging.csv;
  options.tensorboard = config.logging.tensorboard;
  return open_run_metrics(folder, options, std::move(warn));
}

LoadedConfig load_file(const fs::path& path) {
  ConfigRequest request;
  request.files = {path};
  return load_config(request);
}

// Every checkpoint has the settings it was made with, and the run's own file must have all of them. Otherwise the
// missing settings of a damaged file would be taken for changes to the defaults.
void check_settings_are_whole(const ResumePoint& point, const LoadedConfig& of_checkpoint, const fs::path& kept) {
  const LoadedConfig of_run = load_file(saved_config(point));
  std::vector<std::string> missing;
  for (const auto& [key, origin] : of_checkpoint.origins) {
    if (origin != "default" && of_run.origins.at(key) == "default") missing.push_back(key);
  }
  if (missing.empty()) return;
  throw data_error(fmt::format("'{}' lacks {} of the run's settings, for example {}", saved_config(point).string(),
                               missing.size(), missing.front()),
                   fmt::format("replace it by a copy of '{}'", kept.string()));
}

// The settings that differ from those the run was started with, or from those of its checkpoint.
std::vector<ConfigDifference> changes_since(const Prepared& prepared, const std::optional<Checkpoint>& checkpoint) {
  if (!checkpoint) return diff(load_file(saved_config(*prepared.resume)).config, prepared.config.config);
  const fs::path kept = checkpoint->folder() / kKeptConfigFile;
  const LoadedConfig of_checkpoint = load_file(kept);
  check_settings_are_whole(*prepared.resume, of_checkpoint, kept);
  return diff(of_checkpoint.config, prepared.config.config);
}

// If the tokenizer is no longer where the settings say, it is taken from the checkpoint, which has a copy.
std::optional<RunTokenizer> kept_tokenizer(const Prepared& prepared) {
  const std::string& name = tokenizer_name(prepared.config.config);
  if (!prepared.resume || prepared.resume->from_start) return std::nullopt;
  if (name.empty() || name == "byte" || fs::exists(name)) return std::nullopt;
  const CheckpointStore store(prepared.resume->run_folder);
  return open_run_tokenizer(store.path(prepared.resume->step.value_or(store.steps().back())).string());
}

// Opens the parts of a run that may be refused. No file of the run is changed.
struct Opened {
  fs::path folder;
  std::optional<RunLock> lock;  // for a resumed run; a new one has no folder yet
  CheckpointStore store;
  std::optional<Checkpoint> checkpoint;
  std::vector<ConfigDifference> changes;  // since the checkpoint

  explicit Opened(const Prepared& prepared)
      : folder(prepared.resume ? prepared.resume->run_folder : choose_run_folder(prepared.config.config)),
        store(folder) {
    if (RunLock::is_known(folder)) lock.emplace(folder);
    if (!prepared.resume) return;
    if (!prepared.resume->from_start) checkpoint = open_checkpoint(store, *prepared.resume);
    changes = changes_since(prepared, checkpoint);
  }
};

RunParts open_parts(const Prepared& prepared) {
  const std::optional<RunTokenizer> tokenizer = kept_tokenizer(prepared);
  return open_run(prepared.config.config, {.tokenizer = tokenizer ? &*tokenizer : nullptr,
                                           .note = [](const std::string& line) { say("gradmill: " + line); },
                                           .stop_requested = StopSignal::requested});
}

// Creates or takes over the run's folder.
void take_folder(Opened& opened, const Prepared& prepared, const Trainer& trainer) {
  create_run_folder(opened.folder);
  if (!opened.lock) opened.lock.emplace(opened.folder);
  opened.lock->sign();
  opened.store.clean_temporaries();
  write_run_files(opened.folder, prepared.config, trainer.data());
}

// Checkpoints after the resumed one belong to steps that will be repeated.
void drop_later_checkpoints(CheckpointStore& store, const Checkpoint& resumed) {
  for (const int64_t step : store.steps()) {
    if (step > resumed.step()) store.remove(step);
  }
}

// The notes about a resumed run before it continues.
std::vector<std::string> resume_notes(const Opened& opened) {
  std::vector<std::string> notes = {opened.checkpoint ? fmt::format("resumed from step {}", opened.checkpoint->step())
                                                      : "this run has no checkpoint yet: it starts from the beginning"};
  for (const ConfigDifference& change : opened.changes) {
    notes.push_back(fmt::format("setting changed: {} was {}, now {}", change.key, change.a, change.b));
  }
  return notes;
}

// The note for a run that an error ends.
std::string how_to_go_on(const CheckpointStore& store, const fs::path& folder) {
  const std::vector<int64_t> saved = store.steps();
  if (saved.empty()) return "the run ended before its first checkpoint: nothing was saved";
  return fmt::format("the run ended; resume it from step {} with: gradmill train --resume '{}'", saved.back(),
                     folder.string());
}

using Note = std::function<void(const std::string&)>;

TrainOutcome run(Trainer& trainer, const Opened& opened, MetricsFan& metrics, const Note& note) {
  try {
    TrainOutcome outcome = trainer.run();
    metrics.flush();
    return outcome;
  } catch (...) {
    metrics.flush();
    note(how_to_go_on(opened.store, opened.folder));
    throw;
  }
}

int report_end(const TrainOutcome& outcome, const fs::path& folder, const Note& note) {
  if (outcome.status == RunStatus::interrupted) {
    note(fmt::format("{}: saved at step {}; resume with: gradmill train --resume '{}'", StopSignal::name(),
                     outcome.step, folder.string()));
    return static_cast<int>(ExitCode::interrupted);
  }
  if (!outcome.sample.empty()) fmt::print("\nsample:\n{}\n", outcome.sample);
  return 0;
}

int train(const Prepared& prepared) {
  const RunConfig& config = prepared.config.config;
  Opened opened(prepared);
  Trainer trainer(config, open_parts(prepared));
  if (opened.checkpoint) trainer.resume(*opened.checkpoint);
  take_folder(opened, prepared, trainer);

  const std::unique_ptr<Progress> screen = make_screen(config, trainer);
  const Note note = [&screen](const std::string& line) { screen ? screen->note(line) : say(line); };
  const auto files =
      open_files(config, trainer, opened.folder, opened.checkpoint ? opened.checkpoint->step() : kFreshRun, note);
  MetricsFan metrics(*files, screen.get(), config.logging.every_steps);
  if (screen) {
    fmt::print("{}", run_header(trainer, config, opened.folder.string()));
    screen->features(run_features(config));
  }
  trainer.attach({.metrics = &metrics,
                  .store = &opened.store,
                  .stop_requested = StopSignal::requested,
                  .note = note,
                  .config_yaml = effective_yaml(prepared.config, true)});
  if (opened.checkpoint) drop_later_checkpoints(opened.store, *opened.checkpoint);
  if (prepared.resume) {
    for (const std::string& line : resume_notes(opened)) note(line);
  }
  metrics.hparams(run_hparams(config));
  return report_end(run(trainer, opened, metrics, note), opened.folder, note);
}

}  // namespace

int launch_training(const LaunchOptions& options) {
  StopSignal::install();
  const Prepared prepared = prepare(options);
  return options.dry_run ? dry_run(prepared.config) : train(prepared);
}

}  // namespace gradmill
