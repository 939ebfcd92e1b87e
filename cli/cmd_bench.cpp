// SPDX-License-Identifier: Apache-2.0
// gradmill bench step, ops and ladder
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include <fmt/ranges.h>

#include "commands.h"
#include "config_args.h"
#include "on_paper.h"
#include "bench/ladder.h"
#include "bench/op_bench.h"
#include "run/run_options.h"
#include "bench/step_bench.h"

namespace gradmill::cli {
namespace {

// The model of a benchmark: a named case, settings, or both.
struct BenchOptions {
  std::string name;
  ConfigRequest config;
  int64_t vocab = 0;  // 0: that of the case
  int threads = 0;
  int64_t steps = 0;
  bool profile = false;
  std::string on_paper;  // a GPU whose times are modelled, not measured
  int64_t repeats = 3;
  std::string out;
};

struct BenchModel {
  RunConfig config;
  int64_t vocab = 65;
};

BenchModel load_model(BenchOptions options) {
  if (options.steps < 1) throw usage_error(fmt::format("--steps is {}", options.steps), "it must be 1 or more");
  if (options.threads < 0) throw usage_error(fmt::format("--threads is {}", options.threads), "it must be 0 or more");
  if (options.vocab < 0) throw usage_error(fmt::format("--vocab is {}", options.vocab), "it must be 0 or more");
  BenchModel model;
  if (!options.name.empty()) {
    const BenchCase& bench = bench_case(options.name);
    auto& overrides = options.config.overrides;
    overrides.insert(overrides.begin(), bench.overrides.begin(), bench.overrides.end());
    model.vocab = bench.vocab;
  }
  model.config = load_config(options.config).config;
  if (options.vocab > 0) model.vocab = options.vocab;
  if (options.threads > 0) model.config.machine.threads = options.threads;
  return model;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "{}\n", note);
}

// Prints the milliseconds per step of each op and of its roofline, slowest op first.
void print_profile(const Ledger& ledger, int64_t steps) {
  std::vector<std::pair<std::string, Ledger::Line>> lines(ledger.lines().begin(), ledger.lines().end());
  std::sort(lines.begin(), lines.end(),
            [](const auto& a, const auto& b) { return a.second.measured > b.second.measured; });
  lines.emplace_back("total", ledger.total());
  fmt::print("{:<22}{:>8}{:>12}{:>12}{:>12}{:>10}\n", "op", "calls", "ms", "roofline ms", "GFLOP/s", "GB/s");
  for (const auto& [name, line] : lines) {
    const double count = double(steps);
    fmt::print("{:<22}{:>8.0f}{:>12.3f}{:>12.3f}{:>12.1f}{:>10.1f}\n", name, double(line.calls) / count,
               line.measured / count * 1e3, line.seconds / count * 1e3, line.flops / line.measured / 1e9,
               line.bytes / line.measured / 1e9);
  }
}

int bench_step(const BenchOptions& options) {
  const BenchModel model = load_model(options);
  const StepBenchResult result =
      bench_steps(model.config, model.vocab, {.steps = options.steps, .profile = options.profile});
  print_notes(result.notes);
  const SessionOptions session = session_options(model.config);
  fmt::print(
      "{{\"case\": \"{}\", \"device\": \"{}\", \"dtype\": \"{}\", \"threads\": {}, \"step_ms\": {:.3f}, "
      "\"fastest_ms\": {:.3f}, \"slowest_ms\": {:.3f}, \"tokens_per_s\": {:.0f}, \"first_step_s\": {:.3f}, "
      "\"memory_bytes\": {}, \"driver_bytes\": {}, \"loss\": {:.5f}}}\n",
      options.name, session.device.name, name_of(session.dtype), session.num_threads, result.median_ms,
      result.fastest_ms, result.slowest_ms, result.tokens_per_second, result.first_step_s, result.memory_bytes,
      result.driver_bytes, result.loss);
  if (options.profile) print_profile(result.ledger, options.steps);
  return 0;
}

// The command's arguments without --on-paper.
std::vector<std::string> arguments_of_ops(const BenchOptions& options) {
  std::vector<std::string> args = {"bench",     "ops",
                                   "--vocab",   std::to_string(options.vocab),
                                   "--threads", std::to_string(options.threads),
                                   "--steps",   std::to_string(options.steps)};
  const auto add = [&](const char* name, const std::string& value) { args.insert(args.end(), {name, value}); };
  if (!options.name.empty()) add("--case", options.name);
  for (const auto& file : options.config.files) add("--config", file.string());
  for (const auto& folder : options.config.config_dirs) add("--config-dir", folder.string());
  args.insert(args.end(), options.config.overrides.begin(), options.config.overrides.end());
  return args;
}

int bench_ops(const BenchOptions& options) {
  if (!options.on_paper.empty()) run_on_paper(options.on_paper, arguments_of_ops(options));
  const BenchModel model = load_model(options);
  const OpBench bench = gradmill::bench_ops(model.config, model.vocab, options.steps);
  print_notes(bench.notes);
  fmt::print("{}", describe(bench));
  return 0;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw data_error(fmt::format("cannot write '{}'", path.string()), "choose another folder with --out");
}

int bench_ladder(const BenchOptions& options) {
  if (options.repeats < 1) throw usage_error(fmt::format("--repeats is {}", options.repeats), "it must be 1 or more");
  const BenchModel model = load_model(options);
  const auto progress = [](const RungResult& rung) { fmt::print(stderr, "{}\n", rung_line(rung)); };
  const Ladder ladder =
      run_ladder(model.config, model.vocab, {.steps = options.steps, .repeats = options.repeats, .progress = progress});
  fmt::print("{}", ladder_markdown(ladder));
  if (!options.out.empty()) {
    write_file(std::filesystem::path(options.out) / "ladder.md", ladder_markdown(ladder));
    write_file(std::filesystem::path(options.out) / "ladder.json", ladder_json(ladder));
  }
  return ladder.reference() != nullptr ? 0 : static_cast<int>(ExitCode::failure);
}

using Bench = int (*)(const BenchOptions&);

struct SubCommand {
  CLI::App* app;
  std::shared_ptr<BenchOptions> options;
  Bench run;
};

SubCommand add_sub(CLI::App& app, const char* name, const char* summary, Bench run, const BenchOptions& defaults) {
  const auto options = std::make_shared<BenchOptions>(defaults);
  CLI::App* sub = app.add_subcommand(name, summary);
  const std::string cases = fmt::format("{}", fmt::join(bench_case_names(), ", "));
  sub->add_option("--case", options->name, "a named model, which settings can change: one of " + cases)
      ->capture_default_str();
  add_config_args(*sub, options->config);
  sub->add_option("--vocab", options->vocab, "vocabulary size (0: that of the case, or 65)")->capture_default_str();
  sub->add_option("--threads", options->threads, "CPU threads (0: one per core)")->capture_default_str();
  sub->add_option("--steps", options->steps, "steps to time")->capture_default_str();
  return {sub, options, run};
}

}  // namespace

Run add_bench(CLI::App& app) {
  app.require_subcommand(1);
  const SubCommand step = add_sub(app, "step", "time whole training steps and print one line of JSON", bench_step,
                                  {.name = "nano", .steps = 50});
  step.app->add_flag("--profile", step.options->profile, "also time each op and print a table");
  const SubCommand ops =
      add_sub(app, "ops", "time each op of a training step and compare it with the best this device can do", bench_ops,
              {.steps = 10});
  ops.app->add_option("--on-paper", ops.options->on_paper,
                      "model the times of a GPU that is not present, such as h200, instead of measuring; "
                      "needs the program gradmill_on_paper, which only developers build");
  const SubCommand ladder =
      add_sub(app, "ladder", "measure each optimisation: switch them on one after the other, then off one at a time",
              bench_ladder, {.steps = 10});
  ladder.app->add_option("--repeats", ladder.options->repeats, "runs of each rung")->capture_default_str();
  ladder.app->add_option("--out", ladder.options->out, "folder for ladder.md and ladder.json");
  return [subs = std::vector{step, ops, ladder}] {
    for (const SubCommand& sub : subs) {
      if (sub.app->parsed()) return sub.run(*sub.options);
    }
    return 0;
  };
}

}  // namespace gradmill::cli
