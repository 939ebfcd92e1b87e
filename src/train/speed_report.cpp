// SPDX-License-Identifier: Apache-2.0
#include "train/speed_report.h"

#include <fmt/format.h>

#include <cmath>

#include "metrics/format.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

constexpr int64_t kWarmUpSteps = 3, kFewestSteps = 10;
// Carefully tuned models from 10M to 1B parameters reach 67 to 70% on an H200.
constexpr double kGoodShare = 0.5, kFairShare = 0.25;
constexpr double kMostStall = 0.01, kLeastUtilisation = 0.6;

}  // namespace

void SpeedReport::add(const StepWork& step) {
  if (++seen_ <= kWarmUpSteps) return;
  ++steps_;
  sum_.seconds += step.seconds;
  sum_.stall_seconds += step.stall_seconds;
  sum_.tokens += step.tokens;
  sum_.flops += step.flops;
  if (!std::isfinite(step.utilisation)) return;
  sum_.utilisation += step.utilisation;
  ++samples_;
}

std::string SpeedReport::judge(double share) const {
  const char* const verdict = share >= kGoodShare ? "good" : share >= kFairShare ? "fair" : "slow";
  return fmt::format("; {} of the roofline of {}: {}", format_percent(share), device_.title, verdict);
}

std::vector<std::string> SpeedReport::advice(const RunConfig& config, double share) const {
  std::vector<std::string> lines;
  const double stall = sum_.stall_seconds / sum_.seconds;
  if (stall > kMostStall) {
    lines.push_back(fmt::format("the GPU waits for data: raise data.num_workers (now {}){}",
                                num_loader_threads(config.data),
                                config.data.streaming ? ", or tokenise once with data.streaming=false" : ""));
  }
  const double utilisation = samples_ > 0 ? sum_.utilisation / double(samples_) : 1;
  if (utilisation < kLeastUtilisation) {
    lines.push_back(
        fmt::format("kernels ran only {} of the time: the CPU that launches them may be busy with other work",
                    format_percent(utilisation)));
  }
  if (share >= kGoodShare) return lines;
  const std::string& mode = config.compile.mode;
  if (mode == "off" || mode == "default") {
    lines.push_back(fmt::format("compile.mode={}: reduce-overhead replays steps as CUDA graphs", mode));
  }
  if (config.attention.backend == "math")
    lines.push_back("attention.backend=math stores all scores; attention.backend=auto does not");
  if (config.machine.deterministic) lines.push_back("machine.deterministic=true makes some kernels slower");
  lines.push_back(
      "larger micro-batches (training.micro_batch_size) use a GPU better; 'gradmill bench ops' shows which ops are "
      "slow");
  return lines;
}

std::vector<std::string> SpeedReport::lines(const RunConfig& config) const {
  if (steps_ < kFewestSteps) return {};
  const double flops = sum_.flops / sum_.seconds;
  const bool gpu = device_.kind == DeviceKind::cuda;
  std::string first = fmt::format("speed     {} tok/s, {:.4g} ms per step, {} of it waiting for data",
                                  format_count(sum_.tokens / sum_.seconds), sum_.seconds / double(steps_) * 1e3,
                                  format_percent(sum_.stall_seconds / sum_.seconds));
  if (peak_flops_ > 0) first += ", MFU " + format_percent(flops / peak_flops_);
  // A CPU's rates are only estimated from its number of cores.
  if (!gpu || !(roofline_flops_ > 0) || std::isinf(roofline_flops_)) return {first};
  const double share = flops / roofline_flops_;
  std::vector<std::string> lines = {first + judge(share)};
  for (const std::string& line : advice(config, share)) lines.push_back("          " + line);
  return lines;
}

}  // namespace gradmill
