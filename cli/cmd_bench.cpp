// SPDX-License-Identifier: Apache-2.0
// gradmill bench step
#include <algorithm>
#include <memory>

#include "commands.h"
#include "train/run_options.h"
#include "train/step_bench.h"

namespace gradmill::cli {
namespace {

struct BenchOptions {
  std::string name = "nano";
  int threads = 0;
  int64_t steps = 50;
  bool profile = false;
};

// Milliseconds a step for each op, the slowest first, beside its roofline.
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
  if (options.steps < 1) throw usage_error(fmt::format("--steps is {}", options.steps), "it must be 1 or more");
  if (options.threads < 0) throw usage_error(fmt::format("--threads is {}", options.threads), "it must be 0 or more");
  RunConfig config = bench_case(options.name);
  config.machine.threads = options.threads;
  const StepBenchResult result = bench_steps(config, options.steps, options.profile);
  fmt::print(
      "{{\"case\": \"{}\", \"threads\": {}, \"step_ms\": {:.3f}, \"fastest_ms\": {:.3f}, \"tokens_per_s\": {:.0f}}}\n",
      options.name, session_options(config).num_threads, result.median_ms, result.fastest_ms, result.tokens_per_second);
  if (options.profile) print_profile(result.ledger, options.steps);
  return 0;
}

}  // namespace

Run add_bench(CLI::App& app) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* step = app.add_subcommand("step", "time whole training steps; prints one line of JSON");
  app.require_subcommand(1);
  step->add_option("--case", options->name, "nano or char")->capture_default_str();
  step->add_option("--threads", options->threads, "CPU threads (0: every core)")->capture_default_str();
  step->add_option("--steps", options->steps, "steps to time")->capture_default_str();
  step->add_flag("--profile", options->profile, "time each op too, and print a table");
  return [options] { return bench_step(*options); };
}

}  // namespace gradmill::cli
